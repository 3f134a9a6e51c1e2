import type { Lane } from "../store/queues/lanes.js";
import type { Handler } from "../handler/handler.js";
import type { Attempt } from "./attempt.js";

/** What a handler has taken of this process, over all queues. */
export class HandlerSlots {
  running = 0;
  /** Claimed and not over: waiting, running, being settled. */
  held = 0;
  /** Running though their attempt is over. */
  stuck = 0;

  constructor(readonly handler: Handler) {}

  get limit(): number {
    return this.handler.concurrency ?? Number.POSITIVE_INFINITY;
  }

  /** One more claim could start, or wait for a slot that is taken. */
  get open(): boolean {
    return this.held < 2 * this.usable;
  }

  /** What is left of the limit beside bodies that may never end. */
  get usable(): number {
    return Math.max(0, this.limit - this.stuck);
  }

  get free(): boolean {
    return this.running < this.limit;
  }
}

/** A lane that this process serves, with the claims of it that wait for a slot, oldest first. */
export class ServedLane {
  readonly waiting: Attempt[] = [];
  /** It may have jobs to claim: until a claim of it comes back short. */
  more = true;
  /** It is paused until then; monotonic ms. */
  closedUntil = Number.NEGATIVE_INFINITY;
  /** It has no part in claims, as long as this was not found to be over. */
  closed = false;

  constructor(
    readonly lane: Lane,
    readonly slots: HandlerSlots,
  ) {}
}

/** Higher priority first; equal ones by the number of the lane. */
export const byPriority = (a: ServedLane, b: ServedLane): number =>
  b.lane.priority - a.lane.priority || a.lane.lane - b.lane.lane;
