import type { Definition } from "../job/definition.js";
import type { JobPolicy } from "../job/defaults.js";
import type { LimitRule } from "../job/limit.js";
import type { ParsedTimetable } from "../job/schedule.js";
import type { JobContext } from "./job-context.js";

/** User code for one kind of job, with everything that decides how its jobs run. */
export interface Handler {
  readonly definition: Definition;
  /** How many of its jobs run at once in this process; null: as many as the queue lets. */
  readonly concurrency: number | null;
  /** It is called with several jobs at once; null: with one. */
  readonly batch: {
    readonly size: number;
    readonly waitMs: number;
    /** Its code bounds how many of its jobs run at once, over all processes. */
    readonly limited?: boolean;
  } | null;
  /** What bounds its jobs over all processes; null: nothing was said. */
  readonly limits: readonly LimitRule[] | null;
  /** What holds where the row says nothing. */
  readonly policy: JobPolicy;
  /** When such a job is enqueued by itself; null: never. */
  readonly schedule: { readonly timetable: ParsedTimetable; readonly payload: unknown } | null;
  /** It gets these events; null: its jobs are enqueued by their kind. */
  readonly subscription: {
    readonly event: string;
    readonly routingKeys: readonly string[] | null;
  } | null;
  /** Runs the user's method; may throw, may return a promise. */
  readonly run: (payload: unknown, job: JobContext) => unknown;
  /** Where it is, for messages: `ReminderJobs.send`. */
  readonly name: string;
}
