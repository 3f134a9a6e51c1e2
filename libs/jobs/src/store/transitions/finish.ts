import { type Runner, Statement } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, field } from "./fence.js";
import { finished } from "./settled.js";

export interface Finish extends Fence {
  /** JSON text, or null for none. */
  result: string | null;
}

/** Moves running jobs to `done` in one statement; answers those of the batch that were still ours. */
export function finish(verb: string, state: 1 | 2) {
  const statement = new Statement(
    verb,
    (jobs) => `
-- running → ${state === 1 ? "succeeded" : "skipped"}
with mine as (
  delete from ${jobs}.job j
  where ${fenced}
  returning j.id, j.created_at, j.run_at, j.claimed_at, j.worker, j.attempt, j.queue_id, j.failures, j.lane, j.generation,
    j.attempts, j.timeout_ms, j.kind, j.key, j.limit_key, j.headers, j.payload, nullif(${field(1)}, 'null') as result
), moved as (
  insert into ${jobs}.done (id, created_at, run_at, started_at, worker, attempt, queue_id, failures, lane, generation,
    attempts, state, timeout_ms, kind, key, limit_key, headers, payload, result)
  select id, created_at, run_at, claimed_at, worker, attempt, queue_id, failures, lane % 10000, generation,
    attempts, ${state}, timeout_ms, kind, key, limit_key, headers, payload, result
  from mine
)
select count(*) from mine`,
  );
  return async (
    runner: Runner,
    queueId: number,
    worker: number,
    batch: readonly Finish[],
  ): Promise<Set<string>> => {
    const values = fenceValues(queueId, worker, batch, (one) => one.result ?? "null");
    const [row] = await runner.run(statement, values);
    // Nearly always all of them: a count is cheaper than their ids.
    if (Number(row![0]) === batch.length) return new Set(batch.map((one) => one.id));
    return await finished(runner, queueId, worker, batch);
  };
}
