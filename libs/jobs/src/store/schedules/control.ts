import type { PauseOrder } from "../../job/pause.js";
import { type Runner, Statement } from "../../pg/statement.js";

const pauseSchedule = new Statement(
  "pause_schedule",
  (jobs) => `
update ${jobs}.schedule s set paused_at = coalesce(s.paused_at, now()), paused_by = $2::text, paused_why = $3::text,
  paused_until = $4::timestamptz
where s.name = $1::text returning s.name`,
);

// As in the declaration: a tick that is over by now may have had its job already.
const resumeSchedule = new Statement(
  "resume_schedule",
  (jobs) => `
update ${jobs}.schedule s set paused_at = null, paused_by = null, paused_why = null, paused_until = null,
  next_at = case when s.paused_at is null or s.next_at > clock_timestamp() then s.next_at else $3::timestamptz end
where s.name = $1::text and s.cron = $2::text and s.time_zone = $4::text
  and ($3::timestamptz is null or $3::timestamptz > clock_timestamp())
returning s.name`,
);

// The newest job is the one that was seen: else the one before may be one that this snapshot does not see.
const runSchedule = new Statement(
  "run_schedule",
  (jobs) => `
-- -> queued
with wanted as materialized (
  select s.name, s.queue_id, s.lane, s.kind, s.attempts, s.timeout_ms, s.payload
  from ${jobs}.schedule s
  where s.name = $1::text
    and (s.overlap = 'queue' or (s.last_job is not distinct from $2::bigint and not exists (
      select from ${jobs}.job j where j.id = s.last_job and j.queue_id = s.queue_id)))
  for update
), run as (
  insert into ${jobs}.job (id, queue_id, lane, kind, run_at, attempts, timeout_ms, headers, payload)
  select $3::bigint, w.queue_id, w.lane, w.kind, now(), w.attempts, w.timeout_ms,
    jsonb_build_object('schedule', w.name), w.payload
  from wanted w
  returning id
)
update ${jobs}.schedule s set last_job = (select id from run) from wanted where s.name = wanted.name
returning s.queue_id::text`,
);

const seeNewest = new Statement(
  "newest_of_schedule",
  (jobs) => `
select s.queue_id::text, s.kind, q.name, s.last_job::text,
  s.overlap = 'skip' and exists (select from ${jobs}.job j where j.id = s.last_job and j.queue_id = s.queue_id)
from ${jobs}.schedule s join ${jobs}.queue q on q.id = s.queue_id
where s.name = $1::text`,
);

const removeSchedule = new Statement(
  "remove_schedule",
  (jobs) => `
delete from ${jobs}.schedule s where s.name = $1::text and (s.service is null or s.orphaned_at is not null)
returning s.name`,
);

/** Answers whether it is there. */
export async function pause(runner: Runner, name: string, order: PauseOrder): Promise<boolean> {
  const { by, why, until } = order;
  const rows = await runner.run(pauseSchedule, [name, by, why, until?.toISOString() ?? null]);
  return rows.length > 0;
}

/** Goes on with `next`, the first tick from now on; answers false when that is over, or the timetable another one. */
export async function resume(
  runner: Runner,
  { name, cron, timeZone }: { name: string; cron: string; timeZone: string },
  next: Date | undefined,
): Promise<boolean> {
  const rows = await runner.run(resumeSchedule, [
    name,
    cron,
    next?.toISOString() ?? null,
    timeZone,
  ]);
  return rows.length > 0;
}

/** The newest job of a schedule. */
export interface Newest {
  queueId: number;
  kind: string;
  queue: string;
  /** Null: there was none yet. */
  id: string | null;
  /** It is not over, and no other may be beside it. */
  inTheWay: boolean;
}

export async function newest(runner: Runner, name: string): Promise<Newest | undefined> {
  const [row] = await runner.run(seeNewest, [name]);
  if (!row) return undefined;
  const [queueId, kind, queue, id, inTheWay] = row;
  return {
    queueId: Number(queueId),
    kind: kind!,
    queue: queue!,
    id: id!,
    inTheWay: inTheWay === "t",
  };
}

/** Enqueues a job of it at once; answers false when there is to be one at a time and its newest is another by now, or in the way. */
export async function runOnce(
  runner: Runner,
  name: string,
  newestId: string | null,
  id: string,
): Promise<boolean> {
  return (await runner.run(runSchedule, [name, newestId, id])).length > 0;
}

/** Answers false when it is not there, or declared by code. */
export async function remove(runner: Runner, name: string): Promise<boolean> {
  return (await runner.run(removeSchedule, [name])).length > 0;
}
