import { gates, sweep } from "../store/limits/sweep.js";
import type { Store } from "../store/store.js";

/** All keys are looked at, and what nobody uses is forgotten, once in so many turns. */
const ALL_EVERY = 10;
const FORGET_EVERY = 60;
let turns = 0;

/**
 * Sees to the queues that have limits; `released` is told of those in which jobs can run that could not before. One that
 * fails does not keep the others; rejects with what failed.
 */
export async function sweepLimits(
  store: Store,
  released: (queueId: number) => void,
): Promise<void> {
  // Not on the connection that enqueues: a queue whose first limit is new is walked once.
  const { aside } = store;
  const turn = turns++;
  const options = { all: turn % ALL_EVERY === 0, forget: turn % FORGET_EVERY === 0 };
  const failed: unknown[] = [];
  for (const queueId of await gates(aside))
    try {
      if (await sweep(aside, queueId, options)) released(queueId);
    } catch (error) {
      failed.push(error);
    }
  if (failed.length > 0) throw failed[0];
}
