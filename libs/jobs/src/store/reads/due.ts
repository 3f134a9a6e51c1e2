import { type Runner, Statement, arrayOf } from "../../pg/statement.js";
import { GRAVES, lookup } from "./outcomes.js";

// The jobs that come next, and what became of them.

/** A job that could run now. */
export interface DueJob {
  id: string;
  kind: string;
  /** Its last attempt so far. */
  attempt: number;
}

/** What waits for its key too. */
const PLACES = "array[0, 10000]";

/** Lanes whose kind is handled by a worker that lives, and not paused, in the order in which they are claimed from. */
const pickDue = new Statement(
  "pick_due",
  (jobs) => `
select next.id, next.kind, next.attempt
from ${jobs}.queue q
join ${jobs}.lane l on l.queue_id = q.id
cross join unnest(${PLACES}) as aside (steps)
cross join lateral (
  select j.id, j.kind, j.attempt, j.run_at from ${jobs}.job j
  where j.queue_id = q.id and j.lane = (l.id + aside.steps)::smallint and j.lane > -1 and j.run_at <= now()
    and (j.lease_until is null or j.lease_until < now())
  order by j.run_at, j.id limit $3::integer
) next
where q.id = $1::integer and ($2::text is null or l.kind = $2::text)
  and exists (
    select from ${jobs}.worker w
    where w.stopped_at is null and w.beat_at > now() - interval '1 minute' and w.kinds -> q.name ? l.kind)
  and not exists (
    select from ${jobs}.pause z
    where z.queue_id = q.id and z.kind in ('', l.kind) and (z.paused_until is null or z.paused_until > now()))
order by l.priority desc, next.run_at, next.id limit $3::integer`,
);

const isServed = new Statement(
  "is_served",
  (jobs) => `
select exists (
  select from ${jobs}.worker w
  where w.stopped_at is null and w.beat_at > now() - interval '1 minute'
    and case when $2::text is null then w.kinds ? q.name else w.kinds -> q.name ? $2::text end)
from ${jobs}.queue q where q.id = $1::integer`,
);

const whereTheyAre = new Statement(
  null,
  (jobs) => `select looked.id, looked.state, looked.attempt from (${lookup(jobs, GRAVES)}) looked`,
);

/** The next jobs of a queue, or of one of its kinds, that a living worker could start. */
export async function due(
  runner: Runner,
  queueId: number,
  kind: string | null,
  limit: number,
): Promise<DueJob[]> {
  const rows = await runner.run(pickDue, [queueId, kind, limit]);
  return rows.map(([id, ofKind, attempt]) => ({
    id: id!,
    kind: ofKind!,
    attempt: Number(attempt),
  }));
}

/** Whether a living worker takes jobs of it. */
export async function served(
  runner: Runner,
  queueId: number,
  kind: string | null,
): Promise<boolean> {
  const [row] = await runner.run(isServed, [queueId, kind]);
  return row?.[0] === "t";
}

/** Where these jobs are now; one that has left nothing is in no place. */
export async function whereabouts(
  runner: Runner,
  queueId: number,
  ids: readonly string[],
): Promise<Map<string, { state: string; attempt: number }>> {
  const rows = await runner.run(whereTheyAre, [arrayOf([queueId]), arrayOf(ids)]);
  return new Map(
    rows.map(([id, state, attempt]) => [id!, { state: state!, attempt: Number(attempt) }]),
  );
}
