import type { Medians } from "./judge.mjs";

export const GATE: { workloads: string[]; peers: string[]; figures: string[] };
export type Shares = Record<string, Record<string, number>>;
export interface JudgedShare {
  workload: string;
  figure: string;
  now: number;
  before: number | undefined;
  ratio: number;
  state: "reached" | "missed" | "not measured";
}
export function sharesOf(medians: Medians): Shares;
export function judgeShares(found: Shares, baseline: Shares): JudgedShare[];
export function readBaseline(): Shares;
export function writeBaseline(shares: Shares): void;
export function sayShare(judged: JudgedShare): string;
