import { isLockTimeout } from "../../pg/sqlstate.js";
import { type Runner, Statement } from "../../pg/statement.js";
import { existing } from "./enqueue.js";
import { type Fence, fenceValues, fenced } from "./fence.js";
import { setMark } from "./mark.js";
import { finished } from "./settled.js";

// Around a success that is settled in somebody's own transaction.

/** Who claimed the job, as it stands in the table of workers. */
export interface Claimant {
  id: number;
  host: string;
  pid: number;
}

// Nobody else is this process under this id: a database that does not know it is another one. The time-outs are
// set only where there are none. A renewal would change the row under a snapshot that is older, which could not settle
// it any more: in such a transaction the row is locked from the beginning, which keeps renewals and take-overs away.
const enterTransaction = new Statement(null, (jobs) => {
  const bounded = (name: string, ms: string) =>
    `case when current_setting('${name}') = '0' then set_config('${name}', ${ms}::text, true) end`;
  return `
with me as materialized (
  select 1 from ${jobs}.job j
  where j.queue_id = $6::integer and j.id = $7::bigint and j.attempt = $8::integer and j.worker = $1::integer
    and current_setting('transaction_isolation') in ('repeatable read', 'serializable')
  for share
)
select count(w.id), current_database(),
  current_setting('transaction_isolation') in ('repeatable read', 'serializable') and not exists (select from me),
  ${bounded("statement_timeout", "$4")},
  ${bounded("idle_in_transaction_session_timeout", "$4")}, ${bounded("lock_timeout", "$5")}, ${setMark("$9")}
from (select 1) one left join ${jobs}.worker w on w.id = $1::integer and w.host = $2::text and w.pid = $3::integer`;
});

const MAX_MS = 2_147_483_647;

/**
 * Bounds and marks a transaction that is not ours, and says whether it is in our database, by its name if not; `lost`: its
 * snapshot has found that this attempt is not the current one.
 */
export async function enter(
  runner: Runner,
  { id, host, pid }: Claimant,
  queueId: number,
  fence: Fence,
  { statementMs, lockMs }: { statementMs: number; lockMs: number },
  mark: string,
): Promise<{ ours: boolean; database: string; lost: boolean }> {
  const [row] = await runner.run(enterTransaction, [
    id,
    host,
    pid,
    Math.min(MAX_MS, statementMs),
    Math.min(MAX_MS, lockMs),
    queueId,
    fence.id,
    fence.attempt,
    mark,
  ]);
  const [known, database, lost] = row!;
  return { ours: known === "1", database: String(database), lost: lost!.startsWith("t") };
}

const lockJob = new Statement(
  "lock_job",
  (jobs) => `
-- the transaction whose commit got no answer holds this row until it has ended
select j.id from ${jobs}.job j where ${fenced} for update nowait`,
);

/** What became of a transaction that had settled this attempt before its commit; `open`: that is not decided yet. */
export async function outcome(
  runner: Runner,
  queueId: number,
  worker: number,
  fence: Fence,
  keep: boolean,
): Promise<"committed" | "rolled-back" | "lost" | "open"> {
  const committed = async () => (await finished(runner, queueId, worker, [fence])).has(fence.id);
  if (keep && (await committed())) return "committed";
  try {
    const held = await runner.run(lockJob, fenceValues(queueId, worker, [fence]));
    if (held.length > 0) return "rolled-back";
  } catch (error) {
    if (isLockTimeout(error)) return "open";
    throw error;
  }
  // It may have been open before.
  if (await committed()) return "committed";
  // What is not kept leaves nothing when it succeeds: it is in no place at all.
  return !keep && !(await existing(runner, queueId, [fence.id])).has(fence.id)
    ? "committed"
    : "lost";
}
