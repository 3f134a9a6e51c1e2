import { dropUnbound } from "../store/limits/rules.js";
import { LIMITS, gates, sweep } from "../store/limits/sweep.js";
import type { Store } from "../store/store.js";
import { delay } from "../store/upkeep/chores.js";

/** All keys are looked at (before schema 7; there they are each time), and what nobody uses is forgotten, once in so many turns. */
const ALL_EVERY = 10;
const FORGET_EVERY = 60;
/** A held snapshot may keep what it has to go through: it takes this part of the time, and comes at least so often. */
const SHARE = 1 / 20;
const MOST_REST_MS = 10_000;
let turns = 0;

/** Who is told of what a sweep has done. */
export interface SweepPorts {
  /** Jobs of this queue that were set aside can run. */
  readonly released: (queueId: number) => void;
  /** Other limits of this queue hold: workers are to read them anew. */
  readonly changed: (queueId: number) => void;
}

/** Sees to the queues that have limits. One that fails does not keep the others; rejects with what failed. */
export async function sweepLimits(store: Store, { released, changed }: SweepPorts): Promise<void> {
  // Not on the connection that enqueues: a queue whose first limit is new is walked once.
  const { aside } = store;
  const turn = turns++;
  const options = { all: turn % ALL_EVERY === 0, forget: turn % FORGET_EVERY === 0 };
  // Nobody else begins meanwhile.
  const between = async () => await delay(aside, LIMITS, MOST_REST_MS);
  const failed: unknown[] = [];
  const from = performance.now();
  for (const queueId of await gates(aside))
    try {
      if (options.forget && (await store.transaction((run) => dropUnbound({ run }, queueId))))
        changed(queueId);
      if (await sweep(aside, queueId, { ...options, between })) released(queueId);
    } catch (error) {
      failed.push(error);
    }
  const restMs = (performance.now() - from) / SHARE;
  if (restMs > 1_000) await delay(aside, LIMITS, Math.min(restMs, MOST_REST_MS));
  if (failed.length > 0) throw failed[0];
}
