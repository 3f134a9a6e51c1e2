import { JOB_EVENTS, type JobEvent, type JobEventName } from "../job/event.js";
import { Buckets } from "./buckets.js";

/** In seconds. */
const WAIT_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800, 7200];
const RUN_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];
const ATTEMPT_BOUNDS = [1, 2, 3, 4, 5, 8, 13, 25, 100];

/** A job is over. */
const ENDS: ReadonlySet<JobEventName> = new Set(["succeeded", "skipped", "died", "cancelled"]);

/** What has happened to the jobs of one kind in one queue. On the path of every job: it counts, and no more. */
export class Tally {
  readonly counts = Object.fromEntries(JOB_EVENTS.map((name) => [name, 0])) as Record<
    JobEventName,
    number
  >;
  readonly waits = new Buckets(WAIT_BOUNDS);
  readonly runs = new Buckets(RUN_BOUNDS);
  readonly attempts = new Buckets(ATTEMPT_BOUNDS);
  #expected = false;

  constructor(
    /** Label values. */
    readonly queue: string,
    readonly kind: string,
  ) {}

  /** This process has a handler for it, or an attempt has begun here all the same. */
  get runsHere(): boolean {
    return this.#expected || this.counts.started > 0;
  }

  expect(): void {
    this.#expected = true;
  }

  hear({ event, attempt, waitMs, durationMs }: JobEvent): void {
    this.counts[event]++;
    if (waitMs !== undefined) this.waits.add(waitMs / 1_000);
    if (durationMs !== undefined) this.runs.add(durationMs / 1_000);
    if (attempt !== undefined && ENDS.has(event)) this.attempts.add(attempt);
  }
}
