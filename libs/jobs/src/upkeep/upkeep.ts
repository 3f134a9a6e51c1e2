import type { Store } from "../store/store.js";
import { putOff, takeTurn } from "../store/upkeep/chores.js";
import { ensurePartitions } from "../store/upkeep/partitions.js";
import { prune as pruneControl } from "../store/upkeep/control.js";
import { prune as pruneProgress } from "../store/upkeep/progress.js";
import { removeWindows } from "../store/upkeep/windows.js";
import { LIMITS } from "../store/limits/sweep.js";
import { type SweepPorts, sweepLimits } from "./limits.js";
import { type Retention, retain } from "./retention.chore.js";

// Background duties. Each is a row; the process that moves its due time runs it, so that twenty replicas do it once.

/** What duties are told, and whom they tell. */
export interface DutyPorts extends Retention, SweepPorts {}

const CHORES: Record<string, (store: Store, ports: DutyPorts) => Promise<unknown>> = {
  rollup: (store) => store.deltas.rollUp(store),
  partitions: (store) => ensurePartitions(store),
  retention: retain,
  windows: (store) => removeWindows(store),
  progress: (store) => pruneProgress(store),
  control: (store) => pruneControl(store),
  [LIMITS]: sweepLimits,
};

/**
 * Runs a chore that was seen to be due, unless another process was faster. Chores of newer releases are left to them.
 * One that fails is due again in a minute at the latest; it rejects with what failed.
 */
export async function runChore(store: Store, name: string, ports: DutyPorts): Promise<void> {
  const chore = CHORES[name];
  if (!chore || !(await takeTurn(store, name))) return;
  try {
    await chore(store, ports);
  } catch (error) {
    await putOff(store, name).catch(() => undefined);
    throw error;
  }
}
