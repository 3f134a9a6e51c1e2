import type { ErrorReport } from "../../job/error-report.js";
import type { JobEventName } from "../../job/event.js";
import { type Runner, Statement } from "../../pg/statement.js";

/** What can happen to a job, and what people asked of it while it ran. */
export type HistoryEventName = JobEventName | "cancel-requested";

/** One thing that happened to a job, as the view `job_event` shows it. */
export interface HistoryEvent {
  /** What happened; never `lost`, which happens to an attempt that is not the job's any more. */
  readonly event: HistoryEventName;
  /** An ISO string, by the clock of the database. */
  readonly at: string;
  /** The attempt it happened in, or after which; 0 before the first. */
  readonly attempt: number;
  /** 1, and one more with each requeue. */
  readonly generation: number;
  /** `host:pid`; null when no worker had to do with it, or its row is gone. */
  readonly worker: string | null;
  /** Why it was skipped or died. */
  readonly reason: string | null;
  /** The wait until it may run again, in ms; null where it is not known. */
  readonly delayMs: number | null;
  /** What was thrown. */
  readonly error: ErrorReport | null;
}

// Within an attempt by what can follow what: clocks may have gone back, and are not asked.
const getHistory = new Statement(
  "get_history",
  (jobs) => `
select event, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), attempt, generation, worker,
  details ->> 'reason', details ->> 'delayMs', details -> 'error'
from ${jobs}.job_event where queue_id = $1::integer and number = $2::bigint
order by generation, attempt, array_position(
  '{enqueued,requeued,rescued,started,cancel-requested,retried,snoozed,handed-back,succeeded,skipped,died,cancelled,pruned,deleted}'::text[], event), at`,
);

/** What happened to a job, in order. */
export async function history(
  runner: Runner,
  queueId: number,
  id: string,
): Promise<HistoryEvent[]> {
  const rows = await runner.run(getHistory, [queueId, id]);
  return rows.map(([event, at, attempt, generation, worker, reason, delayMs, error]) => ({
    event: event as HistoryEventName,
    at: at!,
    attempt: Number(attempt),
    generation: Number(generation),
    worker: worker ?? null,
    reason: reason ?? null,
    delayMs: delayMs === null || delayMs === undefined ? null : Number(delayMs),
    error: error === null || error === undefined ? null : (JSON.parse(error) as ErrorReport),
  }));
}
