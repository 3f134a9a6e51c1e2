import { type Runner, Statement } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced } from "./fence.js";

const same = (
  table: string,
  id: string,
) => `${table}.queue_id = $1::integer and ${table}.${id} = any($2::bigint[])
  and ${table}.attempt = ($3::jsonb -> ${table}.${id}::text ->> 0)::integer`;

const finishedBy = (jobs: string) => `
select d.id from ${jobs}.done d where ${same("d", "id")} and d.worker = $4::integer
union
select d.id from ${jobs}.dead d where ${same("d", "id")} and d.worker = $4::integer`;

const findFinished = new Statement("find_finished", finishedBy);

// The trace that our own settle would have left: the same attempt and worker among the finished, an error of
// this attempt, or the row put back and not claimed again since.
const findSettled = new Statement(
  "find_settled",
  (jobs) => `${finishedBy(jobs)}
union
select e.job_id from ${jobs}.attempt_error e where ${same("e", "job_id")} and e.worker = $4::integer
union
select j.id from ${jobs}.job j where ${same("j", "id")} and j.worker is null`,
);

const findLocked = new Statement(
  "find_locked",
  (jobs) => `
with free as materialized (
  select j.id from ${jobs}.job j
  where ${fenced}
  for update skip locked
)
select j.id from ${jobs}.job j
where ${fenced} and not j.id = any(array(select id from free))`,
);

type Find = (
  runner: Runner,
  queueId: number,
  worker: number,
  batch: readonly Fence[],
) => Promise<Set<string>>;

const idsBy =
  (statement: Statement): Find =>
  async (runner, queueId, worker, batch) => {
    const rows = await runner.run(statement, fenceValues(queueId, worker, batch));
    return new Set(rows.map(([id]) => id!));
  };

/** Of these attempts, those that are current, and whose row somebody's transaction has locked. */
export const lockedElsewhere = idsBy(findLocked);

/** Of these attempts, those that are the last of a job that has finished. A job that was put back has not. */
export const finished = idsBy(findFinished);

/** Of these attempts, those that have been settled, by a statement whose answer never came. */
export const settled = idsBy(findSettled);
