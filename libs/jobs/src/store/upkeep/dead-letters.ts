import { type Runner, Statement } from "../../pg/statement.js";

const MAX_BATCH = 1_000;
/** Of letters in one batch, as they lie on the disk; one that is longer goes alone. */
const MAX_BYTES = 8 * 1_048_576;

const findQueues = new Statement(
  "queues_with_ages",
  (jobs) =>
    `select id from ${jobs}.queue where archive_dead is not null or prune_dead is not null order by id`,
);

const columns = `id, finished_at, created_at, run_at, started_at, worker, attempt, queue_id, failures, crashes, lane,
    generation, attempts, timeout_ms, kind, key, limit_key, headers, payload, reason, error, errors`;

/** What may be long. Its size is read without the value: that lies elsewhere. */
const bytes = ["headers", "payload", "error", "errors"]
  .map((column) => `coalesce(pg_column_size(d.${column}), 0)`)
  .join(" + ");

/** A letter that somebody requeues at the moment is left alone. */
const oldest = (jobs: string, table: string, age: string) => `old as materialized (
  select d.id, d.finished_at, ${bytes} as bytes
  from ${jobs}.${table} d
  where d.queue_id = $1::integer and d.lane > -1
    and d.finished_at < now() - (select q.${age} from ${jobs}.queue q where q.id = $1::integer)
  order by d.finished_at limit ${MAX_BATCH}
  for update skip locked
), few as materialized (
  select id from (
    select id, sum(bytes) over (order by finished_at, id) - bytes as before from old
  ) one where before < ${MAX_BYTES}
)`;

/** Whether there may be more of them. */
const more = `select count(*) < (select count(*) from old) or count(*) = ${MAX_BATCH} from gone`;

const archive = new Statement(
  "archive_dead",
  (jobs) => `
-- dead -> dead, out of the way
with ${oldest(jobs, "dead", "archive_dead")}, gone as (
  delete from ${jobs}.dead d where d.queue_id = $1::integer and d.id = any(array(select id from few))
  returning ${columns}
), moved as (
  insert into ${jobs}.dead_archive (${columns}) select ${columns} from gone
)
${more}`,
);

const prune = (table: string) =>
  new Statement(
    `prune_${table}`,
    (jobs) => `
-- dead ->
with ${oldest(jobs, table, "prune_dead")}, gone as (
  delete from ${jobs}.${table} d where d.queue_id = $1::integer and d.id = any(array(select id from few))
  returning id, queue_id, lane, attempt, generation
), counted as (
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
  select queue_id, lane, 5, 'epoch', count(*) from gone group by 1, 2
), told as (
  insert into ${jobs}.event (job_id, attempt, queue_id, generation, event)
  select id, attempt, queue_id, generation, 'pruned' from gone
  where (select q.history from ${jobs}.queue q where q.id = $1::integer) = 'full'
)
${more}`,
  );

const pruneDead = prune("dead");
const pruneArchive = prune("dead_archive");

/** Queues whose dead letters do not stay for ever. */
export async function queuesWithAges(runner: Runner): Promise<number[]> {
  return (await runner.run(findQueues)).map(([id]) => Number(id));
}

/** One batch of letters that are old enough goes to the archive; answers whether there may be more. */
export const archiveDead = (runner: Runner, queueId: number): Promise<boolean> =>
  batch(runner, archive, queueId);

/** One batch of letters that are too old, archived or not, goes for good; answers whether there may be more. */
export async function pruneDeadLetters(runner: Runner, queueId: number): Promise<boolean> {
  const more = await batch(runner, pruneDead, queueId);
  return (await batch(runner, pruneArchive, queueId)) || more;
}

async function batch(runner: Runner, statement: Statement, queueId: number): Promise<boolean> {
  const [row] = await runner.run(statement, [queueId]);
  return row![0] === "t";
}
