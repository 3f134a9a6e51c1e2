import type { ErrorReport } from "./error-report.js";

/** What can happen to a job; also the `event` label of metrics and the words of the history. */
export const JOB_EVENTS = [
  "enqueued",
  "started",
  "succeeded",
  "retried",
  "snoozed",
  "skipped",
  "died",
  "cancelled",
  "handed-back",
  "rescued",
  "requeued",
  "pruned",
  "deleted",
  "lost",
  "threw-late",
] as const;

/** One of {@link JOB_EVENTS}. */
export type JobEventName = (typeof JOB_EVENTS)[number];

/** Something that happened to a job, told to observers after it was committed. */
export interface JobEvent {
  readonly event: JobEventName;
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  /** The number of the attempt, which only grows; absent before the first. */
  readonly attempt?: number;
  /** How many runs have counted against the limit so far. */
  readonly failures?: number;
  /** The limit. */
  readonly attempts?: number;
  /** The wait until it may run (again), in ms; absent when it may at once or never. */
  readonly delayMs?: number;
  /**
   * How long it had been due when it started, in ms by the database's clock; absent as long as the worker does not know
   * that clock. What was handed back or taken over has been due all the while.
   */
  readonly waitMs?: number;
  /** How long the attempt ran, in ms. */
  readonly durationMs?: number;
  /** What was thrown. */
  readonly error?: ErrorReport;
  /** Why it was skipped, buried or lost. */
  readonly reason?: string;
}
