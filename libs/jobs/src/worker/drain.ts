import type { Claimer } from "./claimer.js";
import type { ServedQueues } from "./served-queues.js";
import type { Leftovers, Slots } from "./slots.js";
import { until, within } from "./wait.js";

/** After the grace period: for bodies to heed their signal, until the last settles, for farewells. */
const HEED_MS = 1_500;
const LAST_SETTLES_MS = 3_000;
export const FAREWELL_MS = 500;

/**
 * The end of a worker that claims nothing more: what waits goes back at once, handlers get the grace period, then they are
 * aborted, and what still runs goes back.
 * @returns what could not be brought to its end.
 */
export async function drain(
  slots: Slots,
  claimer: Claimer,
  queues: ServedQueues,
  graceMs: number,
): Promise<Leftovers> {
  for (const queue of queues.byId.values()) slots.handBackWaiting(queue);
  await until(() => slots.running === 0 && !claimer.busy, graceMs);
  const end = performance.now() + LAST_SETTLES_MS;
  if (slots.running > 0) {
    slots.abortAll();
    await until(() => slots.running === 0, HEED_MS);
    slots.handBackRunning();
  }
  await until(() => slots.held === 0, end - performance.now());
  const left = slots.leftovers();
  // Others would learn of free slots a moment later.
  for (const queue of queues.byId.values())
    await within(
      claimer.release(queue).catch(() => undefined),
      FAREWELL_MS,
    );
  return left;
}
