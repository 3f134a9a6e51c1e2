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
  /** Jobs that could run now, counted up to 10,001 among the 20,001 oldest due ones of each kind and priority. */
  backlog: number;
  /** Age of the oldest of them in ms; 0 without. */
  lagMs: number;
  oldestJob: string | null;
  deadLetters: number;
  /** Claims whose worker has not renewed them, among the same; counted up to 10,001. */
  expiredLeases: number;
}

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

// One walk of what is due in each lane: the rows of finished jobs that somebody's snapshot keeps stand before it. What
// runs stands there too, so that it looks at more rows than it counts.
const healthOfQueues = new Statement(
  "health",
  (jobs) => `
select q.name, least(coalesce(sum(lane.free), 0), 10001),
  coalesce((extract(epoch from now() - min(lane.oldest_at)) * 1000)::bigint, 0),
  q.id || '-' || (array_agg(lane.oldest order by lane.oldest_at, lane.oldest) filter (where lane.oldest is not null))[1],
  (select coalesce(sum(n), 0) from (
    select n from ${jobs}.stat s where s.queue_id = q.id and s.state = 4
    union all select n from ${jobs}.stat_delta s where s.queue_id = q.id and s.state = 4) dead),
  least(coalesce(sum(lane.expired), 0), 10001)
from ${jobs}.queue q
left join (${jobs}.lane l cross join unnest(array[0, 20000]) as aside (steps)) on l.queue_id = q.id
left join lateral (
  select count(*) filter (where head.lease_until is null or head.lease_until < now()) as free,
    count(*) filter (where head.lease_until < now()) as expired,
    min(head.run_at) filter (where head.lease_until is null or head.lease_until < now()) as oldest_at,
    (array_agg(head.id) filter (where head.lease_until is null or head.lease_until < now()))[1] as oldest
  from (
    select j.run_at, j.id, j.lease_until from ${jobs}.job j
    where j.queue_id = q.id and j.lane = (l.id + aside.steps)::smallint and j.lane > -1 and j.run_at <= now()
    order by j.run_at, j.id limit 20001) head
) lane on true
where $1::text[] is null or q.name = any($1::text[])
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
