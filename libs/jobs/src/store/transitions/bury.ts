import type { Runner } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, field, textField } from "./fence.js";
import { NotedStatement, type Writes, tellAnswered } from "./noted.js";

/** Why a job is dead: attempts used up, told so by the handler or a definition, or its process died under it. */
export type BuryReason = "exhausted" | "buried" | "bury-on" | "not-retryable" | "crashed";

export interface Bury extends Fence {
  /** JSON text of the error report. */
  error: string;
  reason: BuryReason;
  /** Whether this attempt counts as a failure; a take-over that is not run does not. */
  failed: boolean;
}

// The letter's errors say which of them ended an earlier generation, and how: `attempt_error` and `event` go sooner than it.
const generationOf = (jobs: string) => ` || jsonb_build_object('generation', e.generation) || case
        when e.generation < m.generation then coalesce((
          select jsonb_build_object('ended', r.details ->> 'ended')
          from ${jobs}.event r where r.job_id = m.id and r.queue_id = m.queue_id and r.event = 'requeued'
            and (r.details ->> 'finishedAt')::timestamptz = e.failed_at limit 1), '{}')
        else '{}' end`;

const buryJobs = new NotedStatement(
  "bury",
  (jobs, note, history) => `
-- running -> dead
with mine as (
  delete from ${jobs}.job j
  where ${fenced}
  returning j.id, j.created_at, j.run_at, j.claimed_at, j.worker, j.attempt, j.queue_id,
    j.failures + (${textField(3)})::integer as failures, j.crashes, j.lane, j.generation, j.attempts, j.timeout_ms,
    j.kind, j.key, j.limit_key, j.headers, j.payload, j.awaited, ${field(1)} as error, ${textField(2)} as reason
), noted as (
  insert into ${jobs}.attempt_error (job_id, started_at, attempt, worker, queue_id, generation, error)
  select id, claimed_at, attempt, worker, queue_id, generation, error from mine
), moved as (
  insert into ${jobs}.dead (id, created_at, run_at, started_at, worker, attempt, queue_id, failures, crashes, lane,
    generation, attempts, timeout_ms, kind, key, limit_key, headers, payload, reason, error, errors)
  select m.id, m.created_at, m.run_at, m.claimed_at, m.worker, m.attempt, m.queue_id, m.failures, m.crashes, m.lane % 10000,
    m.generation, m.attempts, m.timeout_ms, m.kind, m.key, m.limit_key, m.headers, m.payload, m.reason, m.error,
    coalesce((
      select jsonb_agg(jsonb_build_object('attempt', e.attempt, 'startedAt', e.started_at, 'failedAt', e.failed_at, 'error', e.error)${history ? generationOf(jobs) : ""}
        order by e.attempt)
      from ${jobs}.attempt_error e where e.job_id = m.id and e.queue_id = m.queue_id
    ), '[]') || jsonb_build_object('attempt', m.attempt, 'startedAt', m.claimed_at, 'failedAt', now(), 'error', m.error${history ? ", 'generation', m.generation" : ""})
  from mine m
)${note({ event: "died", from: "mine", modes: ["full"], details: "jsonb_build_object('reason', reason, 'error', error)" })}
select id, awaited from mine`,
);

/** Moves jobs to the dead letters with every error they had; answers those of the batch that were still ours. */
export async function bury(
  runner: Runner,
  queueId: number,
  worker: number,
  batch: readonly Bury[],
  writes: Writes = {},
): Promise<Set<string>> {
  const rows = await runner.run(
    buryJobs.for(writes),
    fenceValues(
      queueId,
      worker,
      batch,
      (one) => `${one.error},"${one.reason}",${one.failed ? 1 : 0}`,
    ),
  );
  tellAnswered(rows, writes);
  return new Set(rows.map(([id]) => id!));
}
