import type { Row } from "./rows.mjs";

export interface Run {
  workload: string;
  peer: string;
  round?: number;
  figures?: Record<string, number>;
}
export class Medians {
  constructor(runs: readonly Run[]);
  runs(workload: string, peer: string): number;
  all(workload: string, peer: string, figure: string): number[];
  byRound(workload: string, peer: string, figure: string): Map<number | undefined, number>;
  of(workload: string, peer: string, figure: string): number | undefined;
}
export interface Judged extends Row {
  state: "reached" | "missed" | "incomplete" | "not measured" | "no Redis";
  lacks: string[];
  value?: number;
  base?: { by?: string; value: number; among?: string[] };
  found?: number;
}
export function judge(
  row: Row,
  medians: Medians,
  on: { workloads: readonly { name: string; peers: readonly string[] }[]; without?: string[] },
): Judged;
export function failures(
  judged: readonly Judged[],
  workloads: readonly { name: string }[],
): Judged[];
