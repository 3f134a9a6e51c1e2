import type { Workload } from "./workloads/index.mjs";

export interface Step {
  workload: Workload;
  peer: string;
  round: number;
}
export function plan(
  workloads: readonly Pick<Workload, "name" | "peers" | "rounds">[],
  peers: readonly string[],
  rounds: number,
): Step[];
