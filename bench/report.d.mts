import type { Judged, Medians, Run } from "./judge.mjs";

interface Titled {
  name: string;
  title: string;
  note?: string;
  peers: readonly string[];
  rounds?: number;
  leftOut?: string;
}
export function report(outcome: {
  about: Record<string, string | number | boolean | readonly string[]>;
  workloads: readonly Titled[];
  medians: Medians;
  judged: readonly Judged[];
  problems: readonly (Run & { round: number; problem: string })[];
}): string;
export function rowsTable(judged: readonly Judged[], workloads: readonly Titled[]): string[];
