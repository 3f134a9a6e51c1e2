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
export function parseOptions(
  args: readonly string[],
  known: { workloads: readonly string[]; peers: readonly string[] },
): Options;
