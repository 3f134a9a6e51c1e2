import type { Runner } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, field } from "./fence.js";
import { NotedStatement, type Writes } from "./noted.js";
import { finished } from "./settled.js";

export interface Finish extends Fence {
  /** JSON text, or null for none. */
  result: string | null;
}

type FinishJobs = (
  runner: Runner,
  queueId: number,
  worker: number,
  batch: readonly Finish[],
  writes?: Writes,
) => Promise<Set<string>>;

/** Moves running jobs to `done` in one statement; answers those of the batch that were still ours. */
export function finish(verb: string, state: 1 | 2): FinishJobs {
  const word = state === 1 ? "succeeded" : "skipped";
  const told = {
    event: word,
    from: "mine",
    modes: ["full" as const],
    ...(state === 2 ? { details: "jsonb_build_object('reason', result ->> 'reason')" } : {}),
  };
  const statement = new NotedStatement(
    verb,
    (jobs, note) => `
-- running -> ${word}
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
)${note(told)}
select count(*) from mine`,
  );
  // Nothing is left of them but a number among the pruned, and their history where it is written whole.
  const forgetting = new NotedStatement(
    `${verb}_and_forget`,
    (jobs, note) => `
-- running -> ${word}, not kept
with mine as (
  delete from ${jobs}.job j
  where ${fenced}
  returning j.id, j.queue_id, j.lane, j.claimed_at, j.attempt, j.generation, ${field(1)} as result
), counted as (
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
  select queue_id, lane % 10000, 5, 'epoch', count(*) from mine group by 1, 2
)${note(told)}
select id from mine`,
  );
  return async (runner, queueId, worker, batch, writes = {}) => {
    const values = fenceValues(queueId, worker, batch, (one) => one.result ?? "null");
    if (writes.keep === false) {
      const rows = await runner.run(forgetting.for(writes), values);
      return new Set(rows.map(([id]) => id!));
    }
    const [row] = await runner.run(statement.whenFull(writes), values);
    // Nearly always all of them: a count is cheaper than their ids.
    if (Number(row![0]) === batch.length) return new Set(batch.map((one) => one.id));
    return await finished(runner, queueId, worker, batch);
  };
}
