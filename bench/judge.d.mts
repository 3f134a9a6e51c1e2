import type { Row } from "./rows.mjs";

export interface Run {
  workload: string;
  peer: string;
  figures?: Record<string, number>;
}
export class Medians {
  constructor(runs: readonly Run[]);
  all(workload: string, peer: string, figure: string): number[];
  of(workload: string, peer: string, figure: string): number | undefined;
}
export interface Judged extends Row {
  state: "reached" | "missed" | "not measured";
  value?: number;
  base?: { by?: string; value: number; among?: string[] };
  found?: number;
}
export function judge(row: Row, medians: Medians): Judged;
