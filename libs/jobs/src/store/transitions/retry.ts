import type { Runner } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, field, textField } from "./fence.js";
import { NotedStatement, type Writes } from "./noted.js";

export interface Retry extends Fence {
  delayMs: number;
  /** JSON text of the error report. */
  error: string;
}

const retryJobs = new NotedStatement(
  "retry",
  (jobs, note) => `
-- running -> queued: the attempt failed, another one is left
with mine as (
  update ${jobs}.job j
  set lease_until = null, worker = null, crashes = 0, failures = j.failures + 1, lane = j.lane % 10000,
    run_at = to_timestamp(extract(epoch from now())::float8 + (${textField(1)})::float8 / 1000)
  where ${fenced} and j.cancel_at is null
  returning j.id, j.claimed_at, j.attempt, j.queue_id, j.generation, ${field(2)} as error
), noted as (
  insert into ${jobs}.attempt_error (job_id, started_at, attempt, worker, queue_id, generation, error)
  select id, claimed_at, attempt, $4::integer, queue_id, generation, error from mine
)${note({ event: "retried", from: "mine", modes: ["full"], details: "jsonb_build_object('error', error, 'delayMs', $3::jsonb -> id::text -> 1)" })}
select id from mine`,
);

/** Puts failed jobs back, due after their delay; answers those of the batch that were still ours. */
export async function retry(
  runner: Runner,
  queueId: number,
  worker: number,
  batch: readonly Retry[],
  writes: Writes = {},
): Promise<Set<string>> {
  const rows = await runner.run(
    retryJobs.whenFull(writes),
    fenceValues(queueId, worker, batch, (one) => `${one.delayMs},${one.error}`),
  );
  return new Set(rows.map(([id]) => id!));
}
