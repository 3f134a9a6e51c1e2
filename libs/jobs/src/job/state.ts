/** Waits for its time and a slot. Set by enqueue, retry, snooze, hand-back, rescue, requeue; left by claim and cancel. */
export const QUEUED = "queued";

/** An attempt has its lease. Set by claim; left by every settle, and by the lease running out. */
export const RUNNING = "running";

/** Its handler returned. Set by succeed; final, until pruned. */
export const SUCCEEDED = "succeeded";

/** Its handler found nothing to do. Set by skip; final, until pruned. */
export const SKIPPED = "skipped";

/** Somebody withdrew it. Set by cancel, or by the settle after one; left by requeue, until pruned. */
export const CANCELLED = "cancelled";

/** Needs a person. Set by bury: attempts used up, crashes, `bury()`, buryOn, retryOn; left by requeue, until pruned. */
export const DEAD = "dead";

/** Every state, in the order of a job's life. */
export const JOB_STATES = [QUEUED, RUNNING, SUCCEEDED, SKIPPED, CANCELLED, DEAD] as const;

/** One of {@link JOB_STATES}. */
export type JobState = (typeof JOB_STATES)[number];

/** The states a job in the finished table can be in, with the number stored for each. */
export const FINISHED_CODES = Object.freeze({ succeeded: 1, skipped: 2, cancelled: 3 });

/** One of the states of {@link FINISHED_CODES}. */
export type FinishedState = keyof typeof FINISHED_CODES;

const FINISHED_STATES: readonly FinishedState[] = ["succeeded", "skipped", "cancelled"];

/** The state stored as a number of {@link FINISHED_CODES}. @throws RangeError for any other number. */
export function finishedState(code: number): FinishedState {
  const state = FINISHED_STATES[code - 1];
  if (!state) throw new RangeError(`Expected a finished state 1..3, found ${code}.`);
  return state;
}
