import type { Runner } from "../pg/statement.js";
import { ensurePartitions, rollUp, takeTurn } from "../store/upkeep/chores.js";
import { removeWindows } from "../store/upkeep/windows.js";

// Background duties. Each is a row; the process that moves its due time runs it, so that twenty replicas do it once.

const CHORES: Record<string, (runner: Runner) => Promise<unknown>> = {
  rollup: rollUp,
  partitions: (runner) => ensurePartitions(runner),
  windows: (runner) => removeWindows(runner),
};

/** Runs a chore that was seen to be due, unless another process was faster. Chores of newer releases are left to them. */
export async function runChore(runner: Runner, name: string): Promise<void> {
  const chore = CHORES[name];
  if (chore && (await takeTurn(runner, name))) await chore(runner);
}
