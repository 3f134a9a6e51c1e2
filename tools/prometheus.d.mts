/** The programs; undefined where they are not installed. */
export const prometheus: string | undefined;
export const promtool: string | undefined;

/** What promtool finds: its exit code, and all that it prints. */
export function runPromtool(
  args: readonly string[],
  input?: string,
): { status: number | null; output: string };

export interface Prometheus {
  readonly url: string;
  /** What its API answers to a path below /api/v1. */
  api<T>(name: string, parameters?: Record<string, string>): Promise<T>;
  stop(): Promise<void>;
}

/** With this configuration. */
export function startPrometheus(config: object): Promise<Prometheus>;
