import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { iso } from "./columns.js";

/** Jobs of one queue and kind by state; finished ones as far back as they are kept. */
export interface KindCounts {
  queue: string;
  kind: string;
  unfinished: number;
  succeeded: number;
  skipped: number;
  cancelled: number;
  dead: number;
  /** Dead letters that were archived. */
  archived: number;
  /** Jobs that are not kept any more, or never were. */
  pruned: number;
  /** Jobs that a person took away. */
  deleted: number;
}

/** Jobs of one queue by state, and the kinds it has ever had; finished ones as far back as they are kept. */
export interface QueueCounts extends Omit<KindCounts, "kind"> {
  kinds: string[];
  createdAt: string;
}

/** How a queue is doing. */
export interface QueueHealth {
  queue: string;
  /**
   * Jobs that could run now, counted up to 10,001. Of a queue 20,001 due jobs are looked at, those that run too: the oldest of
   * one kind and priority after the other; when these are used up, the 20 oldest of each that is left.
   */
  backlog: number;
  /** Age in ms of the oldest that could run now, whatever was counted; 0 without. */
  lagMs: number;
  oldestJob: string | null;
  deadLetters: number;
  /** Claims whose worker has not renewed them, among the same; counted up to 10,001. */
  expiredLeases: number;
}

/** How many due jobs of a queue health looks at, so that as many as run may stand before those that it counts. */
const LOOKED_AT_OF_QUEUE = 20_001;
/** The same of each kind and priority, when that is used up. */
const LOOKED_AT_OF_LANE = 20;

// From the counters, never by counting rows.
const byState = [0, 1, 2, 3, 4, 6, 5, 7]
  .map((state) => `coalesce(sum(s.n) filter (where s.state = ${state}), 0)`)
  .join(", ");
const countKinds = new Statement(
  "counts",
  (jobs) => `
select q.name, l.kind, ${byState}
from (
  select queue_id, lane, state, n from ${jobs}.stat
  union all
  select queue_id, lane, state, n from ${jobs}.stat_delta
) s
join ${jobs}.queue q on q.id = s.queue_id
join ${jobs}.lane l on l.queue_id = s.queue_id and l.id = s.lane
group by 1, 2 order by 1, 2`,
);

// A queue without a job has no counters, and is listed all the same.
const countQueues = new Statement(
  "count_queues",
  (jobs) => `
select q.name, ${byState}, array_to_json(array(
    select distinct l.kind from ${jobs}.lane l where l.queue_id = q.id order by l.kind)), ${iso("q.created_at")}
from ${jobs}.queue q
left join (
  select queue_id, state, n from ${jobs}.stat
  union all
  select queue_id, state, n from ${jobs}.stat_delta
) s on s.queue_id = q.id
group by q.id order by q.name`,
);

// One walk of what is due, lane after lane: the rows of finished jobs that somebody's snapshot keeps stand before it. What
// runs stands there too, so that it looks at more rows than it counts; what one lane takes of the bound is not left for
// the next, of which a few are looked at all the same. Where all of these run, the oldest that does not is looked for.
const healthOfQueues = new Statement(
  "health",
  (jobs) => `
with recursive walk as (
  select q.id as queue_id, -1 as place, ${LOOKED_AT_OF_QUEUE}::bigint as budget,
    0::bigint as free, 0::bigint as expired, null::timestamptz as oldest_at, null::bigint as oldest
  from ${jobs}.queue q
  where $1::text[] is null or q.name = any($1::text[])
  union all
  select walk.queue_id, next.place, greatest(walk.budget - head.looked, ${LOOKED_AT_OF_LANE}),
    head.free, head.expired, coalesce(head.oldest_at, behind.run_at), coalesce(head.oldest, behind.id)
  from walk
  cross join lateral (
    select coalesce(
      (select min(l.id) from ${jobs}.lane l where l.queue_id = walk.queue_id and l.id > walk.place),
      (select min(l.id) + 20000 from ${jobs}.lane l where l.queue_id = walk.queue_id and l.id > walk.place - 20000)) as place
    offset 0) next
  cross join lateral (
    select count(*) as looked,
      count(*) filter (where due.lease_until is null or due.lease_until < now()) as free,
      count(*) filter (where due.lease_until < now()) as expired,
      min(due.run_at) filter (where due.lease_until is null or due.lease_until < now()) as oldest_at,
      (array_agg(due.id) filter (where due.lease_until is null or due.lease_until < now()))[1] as oldest
    from (
      select j.run_at, j.id, j.lease_until from ${jobs}.job j
      where j.queue_id = walk.queue_id and j.lane = next.place::smallint and j.lane > -1 and j.run_at <= now()
      order by j.run_at, j.id limit walk.budget) due) head
  left join lateral (
    select due.run_at, due.id
    from (
      select j.run_at, j.id, j.lease_until from ${jobs}.job j
      where j.queue_id = walk.queue_id and j.lane = next.place::smallint and j.lane > -1 and j.run_at <= now()
      order by j.run_at, j.id limit ${LOOKED_AT_OF_QUEUE}) due
    where head.free = 0 and head.looked = walk.budget and (due.lease_until is null or due.lease_until < now())
    limit 1) behind on true
  where next.place is not null
)
select q.name, least(coalesce(sum(walk.free), 0), 10001),
  coalesce((extract(epoch from now() - min(walk.oldest_at)) * 1000)::bigint, 0),
  q.id || '-' || (array_agg(walk.oldest order by walk.oldest_at, walk.oldest) filter (where walk.oldest is not null))[1],
  (select coalesce(sum(n), 0) from (
    select n from ${jobs}.stat s where s.queue_id = q.id and s.state = 4
    union all select n from ${jobs}.stat_delta s where s.queue_id = q.id and s.state = 4) dead),
  least(coalesce(sum(walk.expired), 0), 10001)
from walk
join ${jobs}.queue q on q.id = walk.queue_id
group by q.id
order by q.name`,
);

const namesOfQueues = new Statement(
  "queue_names",
  (jobs) => `select name from ${jobs}.queue order by name`,
);

// Kinds with work that no live worker has a handler for. A worker that has not beaten for a minute is not live.
const unhandledKinds = new Statement(
  "unknown_kinds",
  (jobs) => `
select distinct q.name, l.kind
from ${jobs}.lane l
join ${jobs}.queue q on q.id = l.queue_id
where exists (select 1 from ${jobs}.job j where j.queue_id = l.queue_id and j.lane = l.id and j.lane > -1)
  and not exists (
    select 1 from ${jobs}.worker w
    where w.stopped_at is null and w.beat_at > now() - interval '1 minute' and w.kinds -> q.name ? l.kind)
order by 1, 2`,
);

const states = ([
  unfinished,
  succeeded,
  skipped,
  cancelled,
  dead,
  archived,
  pruned,
  deleted,
]: Row) => ({
  unfinished: Number(unfinished),
  succeeded: Number(succeeded),
  skipped: Number(skipped),
  cancelled: Number(cancelled),
  dead: Number(dead),
  archived: Number(archived),
  pruned: Number(pruned),
  deleted: Number(deleted),
});

export async function counts(runner: Runner): Promise<KindCounts[]> {
  const rows = await runner.run(countKinds);
  return rows.map((row) => ({ queue: row[0]!, kind: row[1]!, ...states(row.slice(2)) }));
}

export async function queueCounts(runner: Runner): Promise<QueueCounts[]> {
  const rows = await runner.run(countQueues);
  return rows.map((row) => ({
    queue: row[0]!,
    ...states(row.slice(1, 9)),
    kinds: JSON.parse(row[9]!) as string[],
    createdAt: row[10]!,
  }));
}

export async function health(
  runner: Runner,
  queues: readonly string[] | null,
): Promise<QueueHealth[]> {
  const rows = await runner.run(healthOfQueues, [queues]);
  return rows.map(([queue, backlog, lagMs, oldestJob, deadLetters, expiredLeases]) => ({
    queue: queue!,
    backlog: Number(backlog),
    lagMs: Number(lagMs),
    oldestJob: oldestJob ?? null,
    deadLetters: Number(deadLetters),
    expiredLeases: Number(expiredLeases),
  }));
}

export async function queueNames(runner: Runner): Promise<string[]> {
  return (await runner.run(namesOfQueues)).map(([name]) => name!);
}

export async function unknownKinds(runner: Runner): Promise<{ queue: string; kind: string }[]> {
  const rows = await runner.run(unhandledKinds);
  return rows.map(([queue, kind]) => ({ queue: queue!, kind: kind! }));
}
