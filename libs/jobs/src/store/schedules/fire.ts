import type { Misfire } from "../../job/ticks.js";
import { type Runner, Statement, arrayOf } from "../../pg/statement.js";
import { ms } from "../instant.js";

/** A schedule whose tick has come, as it was seen. */
export interface DueSchedule {
  name: string;
  queueId: number;
  kind: string;
  queue: string;
  cron: string;
  timeZone: string;
  misfire: Misfire;
  /** The tick; in ms, as all times here. */
  tick: number;
  /** The same as PostgreSQL wrote it: somebody may have set it by hand, to the microsecond. */
  seen: string;
  /** A pause was over then; ticks before that are not made up for. */
  pausedUntil: number | null;
  /** The newest job; null: none yet. */
  lastJob: string | null;
  /** The server's clock. */
  now: number;
}

/** What becomes of it. */
export interface Firing {
  /** Ticks that are to have a job, in order, each with the id of that. */
  ticks: readonly { at: number; id: string }[];
  /** The newest tick that is seen to by this. */
  last: number;
  /** The next one; undefined: none comes any more. */
  next: number | undefined;
}

const MAX_DUE = 100;

const findDue = new Statement(
  "due_schedules",
  (jobs) => `
select s.name, s.queue_id::text, s.kind, q.name, s.cron, s.time_zone, s.misfire, ${ms("s.next_at")}, s.next_at::text,
  ${ms("s.paused_until")}, s.last_job::text, ${ms("now()")}
from ${jobs}.schedule s join ${jobs}.queue q on q.id = s.queue_id
where s.due_at <= now() and s.name <> all($1::text[])
order by s.due_at, s.name
limit ${MAX_DUE}`,
);

// Whoever finds tick and newest job as he saw them has the tick: a lock that was waited for would let in one who looks for
// the job before with a snapshot older than that job. OFFSET 0 keeps that look by its index, and so does the
// name of the schedule: tables that a vacuum has found empty would be read whole.
const fireSchedule = new Statement(
  "fire_schedule",
  (jobs) => `
-- -> queued
with due as materialized (
  select s.name, s.queue_id, s.lane, s.kind, s.attempts, s.timeout_ms, s.payload, s.overlap, s.last_job, s.last_at
  from ${jobs}.schedule s
  where s.name = $1::text and s.next_at = $2::timestamptz and s.last_job is not distinct from $3::bigint and s.due_at <= now()
  for update skip locked
), fired as (
  insert into ${jobs}.job (id, queue_id, lane, kind, run_at, attempts, timeout_ms, headers, payload)
  select t.id, d.queue_id, d.lane, d.kind, t.at, d.attempts, d.timeout_ms,
    jsonb_build_object('schedule', d.name, 'tick', extract(epoch from t.at) * 1000), d.payload
  from due d
  cross join rows from (unnest($4::bigint[]), unnest($5::timestamptz[])) with ordinality as t (id, at, place)
  where t.at > coalesce(d.last_at, '-infinity') -- the server's clock may have gone back
    and (d.overlap = 'queue' or (t.place = 1 and not exists (
      select from ${jobs}.job j where j.id = d.last_job and j.queue_id = d.queue_id offset 0)))
  returning id
)
update ${jobs}.schedule s
set last_at = greatest(s.last_at, $6::timestamptz), next_at = $7::timestamptz, last_job = coalesce((select max(id) from fired), s.last_job),
  paused_at = null, paused_until = null, paused_by = null, paused_why = null
from due where s.name = $1::text
returning (select coalesce(json_agg(id::text), '[]') from fired)::text`,
);

/** Schedules that somebody has to see to, but for those that are left `apart`; the longest due first. */
export async function due(runner: Runner, apart: readonly string[] = []): Promise<DueSchedule[]> {
  const rows = await runner.run(findDue, [apart]);
  return rows.map(
    ([name, queueId, kind, queue, cron, timeZone, misfire, tick, seen, until, lastJob, now]) => ({
      name: name!,
      queueId: Number(queueId),
      kind: kind!,
      queue: queue!,
      cron: cron!,
      timeZone: timeZone!,
      misfire: misfire as Misfire,
      tick: Number(tick),
      seen: seen!,
      pausedUntil: until === null ? null : Number(until),
      lastJob: lastJob!,
      now: Number(now),
    }),
  );
}

/**
 * Enqueues the jobs of its ticks and moves it on.
 * @returns the ids of the jobs, fewer than asked for where one is not over; undefined when somebody was faster.
 */
export async function fire(
  runner: Runner,
  { name, seen, lastJob }: DueSchedule,
  { ticks, last, next }: Firing,
): Promise<string[] | undefined> {
  const text = (at: number) => new Date(at).toISOString();
  const [row] = await runner.run(fireSchedule, [
    name,
    seen,
    lastJob,
    arrayOf(ticks.map(({ id }) => id)),
    `{${ticks.map(({ at }) => `"${text(at)}"`).join(",")}}`,
    text(last),
    next === undefined ? null : text(next),
  ]);
  return row && (JSON.parse(row[0]!) as string[]);
}
