import { type Runner, Statement } from "../../pg/statement.js";

// What a finished job said last is kept as long as the job: older than every partition of finished jobs, and of no job
// that is there.
const pruneProgress = new Statement(
  "prune_progress",
  (jobs) => `
with gone as materialized (
  select p.job_id, p.queue_id
  from ${jobs}.progress p
  where p.reported_at < (
      select min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamptz
      from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = '${jobs}.done'::regclass)
    and not exists (select from ${jobs}.job j where j.id = p.job_id and j.queue_id = p.queue_id)
    and not exists (select from ${jobs}.dead d where d.id = p.job_id and d.queue_id = p.queue_id)
    and not exists (select from ${jobs}.dead_archive d where d.id = p.job_id and d.queue_id = p.queue_id)
    and not exists (select from ${jobs}.done d where d.id = p.job_id and d.queue_id = p.queue_id)
  limit $1::integer
), pruned as (
  delete from ${jobs}.progress p using gone where p.job_id = gone.job_id and p.queue_id = gone.queue_id
  returning p.job_id
)
select count(*) from pruned`,
);

const BATCH = 10_000;

/** Forgets the progress of jobs that are gone; answers of how many. */
export async function prune(runner: Runner, batch = BATCH): Promise<number> {
  for (let all = 0; ;) {
    const [row] = await runner.run(pruneProgress, [batch]);
    const pruned = Number(row![0]);
    all += pruned;
    if (pruned < batch) return all;
  }
}
