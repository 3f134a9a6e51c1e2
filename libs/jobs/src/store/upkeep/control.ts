import { type Runner, Statement } from "../../pg/statement.js";

// A row whose attempt is not the current one any more is read by nobody: its process is gone, or was done before it has
// read it. A cancel writes it together with the job, so that each snapshot has both or neither. The table is walked by its
// key, a statement looks at no more rows than it is told; OFFSET 0 keeps each look-up by its key.
const pruneControl = new Statement(
  "prune_control",
  (jobs) => `
with walked as materialized (
  select c.worker, c.queue_id, c.job_id, c.attempt, c.ctid as at
  from ${jobs}.control c
  where (c.worker, c.queue_id, c.job_id, c.attempt) > ($1::integer, $2::integer, $3::bigint, $4::integer)
  order by c.worker, c.queue_id, c.job_id, c.attempt limit $5::integer
), over as materialized (
  select w.at from walked w
  where not exists (select from ${jobs}.job j where j.id = w.job_id and j.queue_id = w.queue_id
    and j.worker = w.worker and j.attempt = w.attempt and j.lease_until is not null offset 0)
), pruned as (
  delete from ${jobs}.control c where c.ctid = any(array(select at from over))
  returning c.worker
)
select (select count(*) from walked), (select count(*) from pruned), last.*
from (select 1) one left join (
  select w.worker, w.queue_id, w.job_id, w.attempt from walked w order by 1 desc, 2 desc, 3 desc, 4 desc limit 1
) last on true`,
);

const BATCH = 5_000;

/** Forgets what was asked of attempts that are over; answers of how many. */
export async function prune(runner: Runner, batch = BATCH): Promise<number> {
  let after: readonly (string | null)[] = ["0", "0", "0", "0"];
  for (let all = 0; ;) {
    const [row] = await runner.run(pruneControl, [...after, batch]);
    const [walked, pruned, ...last] = row!;
    all += Number(pruned);
    if (Number(walked) < batch) return all;
    after = last;
  }
}
