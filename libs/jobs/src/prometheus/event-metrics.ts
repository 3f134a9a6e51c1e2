import { JOB_EVENTS, type JobEventName } from "../job/event.js";
import type { JobState } from "../job/state.js";
import type { Buckets } from "./buckets.js";
import { Family } from "./family.js";
import type { Tally } from "./tally.js";

/** The state in which an event leaves its job; of one that is lost nobody here knows. */
const STATE_AFTER: Record<JobEventName, JobState | "unknown" | "pruned" | "deleted"> = {
  enqueued: "queued",
  started: "running",
  succeeded: "succeeded",
  retried: "queued",
  snoozed: "queued",
  skipped: "skipped",
  died: "dead",
  cancelled: "cancelled",
  "handed-back": "queued",
  rescued: "running",
  requeued: "queued",
  pruned: "pruned",
  deleted: "deleted",
  lost: "unknown",
  "threw-late": "succeeded",
};

/** Of a kind that runs here they are told from 0 on: a counter that begins at 1 has not grown for Prometheus. */
const FROM_ZERO: ReadonlySet<JobEventName> = new Set([
  "started",
  "succeeded",
  "retried",
  "died",
  "lost",
]);

/** What has happened to jobs in this process. */
export function eventMetrics(prefix: string, tallies: Iterable<Tally>): Family[] {
  const histogram = (name: string, help: string, of: (tally: Tally) => Buckets) =>
    new Family(`${prefix}${name}`, "histogram", help, () =>
      [...tallies].flatMap((tally) => of(tally).samples(`${prefix}${name}`, labelsOf(tally))),
    );
  return [
    new Family(
      `${prefix}events_total`,
      "counter",
      "What this process has done to jobs, by event and the state that it left them in.",
      () => [...tallies].flatMap(counted),
    ),
    histogram(
      "wait_duration_seconds",
      "From the time a job was due to the start of its attempt.",
      ({ waits }) => waits,
    ),
    histogram(
      "run_duration_seconds",
      "How long attempts ran, however they ended.",
      ({ runs }) => runs,
    ),
    histogram(
      "attempts",
      "How many attempts jobs had had when they ended.",
      ({ attempts }) => attempts,
    ),
  ];
}

const labelsOf = ({ queue, kind }: Tally) => ({ queue, kind });

const counted = (tally: Tally) =>
  JOB_EVENTS.filter(
    (event) => tally.counts[event] > 0 || (tally.runsHere && FROM_ZERO.has(event)),
  ).map((event) => ({
    labels: { event, ...labelsOf(tally), state: STATE_AFTER[event] },
    value: tally.counts[event],
  }));
