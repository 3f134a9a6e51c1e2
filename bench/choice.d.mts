import type { Options } from "./options.mjs";
import type { Step } from "./plan.mjs";
import type { Size, Workload } from "./workloads/index.mjs";

export interface Choice {
  workloads: (Workload & { size: Size })[];
  without: string[];
  steps: Step[];
  /** Whether one has to be started. */
  redis: boolean;
}
export function choose(
  options: Pick<Options, "quick" | "gate" | "check" | "runs" | "only" | "peers">,
  hasRedis: boolean,
): Choice;
