import { isLockTimeout } from "../../pg/sqlstate.js";
import { type Runner, Statement } from "../../pg/statement.js";
import { existing } from "./enqueue.js";
import { type Fence, fenceValues, fenced } from "./fence.js";
import { finished } from "./settled.js";

// Around a success that is settled in somebody's own transaction.

/** Who claimed the job, as it stands in the table of workers. */
export interface Claimant {
  id: number;
  host: string;
  pid: number;
}

// Nobody else is this process under this id: a database that does not know it is another one. The time-outs are
// set only where there are none.
const enterTransaction = new Statement(null, (jobs) => {
  const bounded = (name: string, ms: string) =>
    `case when current_setting('${name}') = '0' then set_config('${name}', ${ms}::text, true) end`;
  return `
select count(w.id), current_database(), ${bounded("statement_timeout", "$4")},
  ${bounded("idle_in_transaction_session_timeout", "$4")}, ${bounded("lock_timeout", "$5")}
from (select 1) one left join ${jobs}.worker w on w.id = $1::integer and w.host = $2::text and w.pid = $3::integer`;
});

const MAX_MS = 2_147_483_647;

/** Bounds a transaction that is not ours, and says whether it is in our database; answers the name of another one. */
export async function enter(
  runner: Runner,
  claimant: Claimant,
  { statementMs, lockMs }: { statementMs: number; lockMs: number },
): Promise<{ ours: boolean; database: string }> {
  const { id, host, pid } = claimant;
  const values = [id, host, pid, Math.min(MAX_MS, statementMs), Math.min(MAX_MS, lockMs)];
  const [row] = await runner.run(enterTransaction, values);
  return { ours: row![0] === "1", database: String(row![1]) };
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
  try {
    const held = await runner.run(lockJob, fenceValues(queueId, worker, [fence]));
    if (held.length > 0) return "rolled-back";
  } catch (error) {
    if (isLockTimeout(error)) return "open";
    throw error;
  }
  const done = await finished(runner, queueId, worker, [fence]);
  if (done.has(fence.id)) return "committed";
  // What is not kept leaves nothing when it succeeds: it is in no place at all.
  return !keep && !(await existing(runner, queueId, [fence.id])).has(fence.id)
    ? "committed"
    : "lost";
}
