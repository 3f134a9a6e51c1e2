export interface Options {
  quick: boolean;
  check: boolean;
  gate: boolean;
  baseline: boolean;
  list: boolean;
  runs: number;
  only: string[] | undefined;
  peers: string[] | undefined;
  complete: boolean;
}
export class UsageError extends Error {}
export const PUBLISHED_RUNS: number;
/** As node:util reads them. */
export const ARGUMENTS: Record<string, { type: "boolean" | "string"; default?: boolean }>;
export function parseOptions(
  args: readonly string[],
  known: { workloads: readonly string[]; peers: readonly string[] },
): Options;
