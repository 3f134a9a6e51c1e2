import { type Runner, Statement } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, field, textField } from "./fence.js";

export interface LogLine {
  /** Its number within the attempt, from 1. */
  line: number;
  /** How long ago it was logged. */
  ageMs: number;
  text: string;
}

/** What a running attempt says of itself. */
export interface ReportOf extends Fence {
  progress: { percent: number; note: string | null } | null;
  lines: readonly LogLine[];
}

// The share lock makes a take-over wait until this is committed, and this impossible after it. Rows that others hold
// for the moment are left for the next time, unless there is none. OFFSET 0 keeps each look-up of a line by its index:
// while the log was empty the planner chose to read all of it, once for a batch, and went on doing so.
const reportBy = (name: string, locked: string) =>
  new Statement(
    name,
    (jobs) => `
-- running -> running
with mine as materialized (
  select j.id, j.queue_id, j.attempt, (${textField(1)})::float8 as percent, ${textField(2)} as note, ${field(3)} as lines
  from ${jobs}.job j
  where ${fenced}
  for share ${locked}
), progressed as (
  insert into ${jobs}.progress as p (job_id, reported_at, percent, attempt, queue_id, note)
  select id, now(), percent, attempt, queue_id, note from mine where percent is not null
  on conflict (job_id, queue_id) do update
    set reported_at = excluded.reported_at, percent = excluded.percent, attempt = excluded.attempt, note = excluded.note
    where p.attempt <= excluded.attempt
), logged as (
  insert into ${jobs}.job_log (job_id, logged_at, attempt, line, queue_id, text)
  select m.id, now() - (one -> 1)::float8 * interval '1 ms', m.attempt, (one -> 0)::integer, m.queue_id, one ->> 2
  from mine m cross join lateral jsonb_array_elements(m.lines) one
  where not ($5::boolean and exists (select from ${jobs}.job_log l
    where l.job_id = m.id and l.attempt = m.attempt and l.line = (one -> 0)::integer and l.queue_id = m.queue_id offset 0))
)
select id from mine`,
  );
const reportNow = reportBy("report", "skip locked");
const reportLast = reportBy("report_last", "");

/**
 * Writes progress and log lines of running attempts; answers those of the batch that were ours, and not locked.
 * @param how `last`: waits for locks, there will be no other time. `again`: lines that are there already are left.
 */
export async function report(
  runner: Runner,
  queueId: number,
  worker: number,
  batch: readonly ReportOf[],
  how: { last: boolean; again: boolean },
): Promise<Set<string>> {
  const values = fenceValues(queueId, worker, batch, ({ progress, lines }) => {
    const { percent, note } = progress ?? { percent: null, note: null };
    return `${percent},${JSON.stringify(note)},${JSON.stringify(
      lines.map((one) => [one.line, Math.round(one.ageMs), one.text]),
    )}`;
  });
  const rows = await runner.run(how.last ? reportLast : reportNow, [...values, how.again]);
  return new Set(rows.map(([id]) => id!));
}
