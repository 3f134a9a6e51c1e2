import { type Runner, Statement } from "../../pg/statement.js";

// What a job said last is kept as long as the job. Whatever moves a job from table to table does so in one commit: the
// snapshot of this statement finds it in one of them. The table is walked by its key, so that a statement looks at no
// more rows than it is told. OFFSET 0 keeps each look-up by its key: as joins the planner reads all that has finished,
// for each batch anew.
const pruneProgress = new Statement(
  "prune_progress",
  (jobs) => `
with walked as materialized (
  select p.job_id, p.queue_id, p.ctid as at
  from ${jobs}.progress p
  where (p.job_id, p.queue_id) > ($1::bigint, $2::integer)
  order by p.job_id, p.queue_id limit $3::integer
), gone as materialized (
  select w.at
  from walked w
  where ${["job", "dead", "dead_archive", "done"]
    .map(
      (table) =>
        `not exists (select from ${jobs}.${table} t where t.id = w.job_id and t.queue_id = w.queue_id offset 0)`,
    )
    .join("\n    and ")}
), pruned as (
  delete from ${jobs}.progress p where p.ctid = any(array(select at from gone))
  returning p.job_id
)
select (select count(*) from walked), (select count(*) from pruned), last.job_id, last.queue_id
from (select 1) one left join (select w.job_id, w.queue_id from walked w order by 1 desc, 2 desc limit 1) last on true`,
);

const BATCH = 5_000;

/** Forgets the progress of jobs that are gone; answers of how many. */
export async function prune(runner: Runner, batch = BATCH): Promise<number> {
  let after: readonly (string | null)[] = ["-9223372036854775808", "0"];
  for (let all = 0; ;) {
    const [row] = await runner.run(pruneProgress, [...after, batch]);
    const [walked, pruned, ...last] = row!;
    all += Number(pruned);
    if (Number(walked) < batch) return all;
    after = last;
  }
}
