/** What a worker process has seen. */
export interface Seen {
  runs: Uint8Array;
  strays: number;
}
export function settledExactlyOnce(
  stage: { producer: { call(name: "tally"): Promise<Record<string, number | null>> } },
  reports: readonly Seen[],
  expected: { jobs: number; runsEach?: number; beside?: number },
): Promise<void>;
