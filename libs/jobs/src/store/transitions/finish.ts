import type { Runner } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, field } from "./fence.js";
import { marked } from "./mark.js";
import { NotedStatement, type Writes, tellAnswered } from "./noted.js";
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
  const { kept, forgotten } = statements(verb, state);
  return async (runner, queueId, worker, batch, writes = {}) => {
    const values = valuesOf(queueId, worker, batch);
    if (writes.keep === false) {
      const rows = await runner.run(forgotten.for(writes), values);
      tellAnswered(rows, writes);
      return new Set(rows.map(([id]) => id!));
    }
    const [row] = await runner.run(kept.whenFull(writes), values);
    const [n, awaited] = row!;
    if (awaited) writes.answered?.(awaited.split(","));
    // Nearly always all of them: a count is cheaper than their ids.
    if (Number(n) === batch.length) return new Set(batch.map((one) => one.id));
    return await finished(runner, queueId, worker, batch);
  };
}

/** `ended`: the transaction is another one than that which was marked. */
export type FinishedWithin = "finished" | "lost" | "ended";

/**
 * The same for one job at the end of somebody's transaction, which `mark.ts` marks. That may have begun long ago; and
 * when whoever has it has ended it, and perhaps begun another, nothing is written.
 */
export function finishWithin(
  verb: string,
  state: 1 | 2,
): (
  runner: Runner,
  queueId: number,
  worker: number,
  one: Finish,
  mark: string,
  writes?: Writes,
) => Promise<FinishedWithin> {
  const { kept, forgotten } = statements(`${verb}_within`, state, true);
  return async (runner, queueId, worker, one, mark, writes = {}) => {
    const statement = writes.keep === false ? forgotten.for(writes) : kept.whenFull(writes);
    const [row] = await runner.run(statement, [...valuesOf(queueId, worker, [one]), mark]);
    const [n, awaited, same] = row!;
    if (awaited) writes.answered?.([awaited]);
    return n === "1" ? "finished" : same!.startsWith("t") ? "lost" : "ended";
  };
}

const valuesOf = (queueId: number, worker: number, batch: readonly Finish[]) =>
  fenceValues(queueId, worker, batch, (one) => one.result ?? "null");

// Null for nearly every batch.
const AWAITED = "string_agg(id::text, ',') filter (where awaited)";

function statements(
  verb: string,
  state: 1 | 2,
  within = false,
): { kept: NotedStatement; forgotten: NotedStatement } {
  const word = state === 1 ? "succeeded" : "skipped";
  const told = {
    event: word,
    from: "mine",
    modes: ["full" as const],
    ...(state === 2 ? { details: "jsonb_build_object('reason', result ->> 'reason')" } : {}),
    ...(within ? { at: "finished_at" } : {}),
  };
  // The mark names no column: in another transaction the row is not even looked for, nor locked.
  const where = within ? `${marked("$5")} and ${fenced}` : fenced;
  const at = within ? ", clock_timestamp() as finished_at" : "";
  const finishedAt = within ? ", finished_at" : "";
  const same = within ? `, ${marked("$5")} as same` : "";
  const kept = new NotedStatement(
    verb,
    (jobs, note) => `
-- running -> ${word}
with mine as (
  delete from ${jobs}.job j
  where ${where}
  returning j.id, j.created_at, j.run_at, j.claimed_at, j.worker, j.attempt, j.queue_id, j.failures, j.lane, j.generation,
    j.attempts, j.timeout_ms, j.kind, j.key, j.limit_key, j.headers, j.payload, j.awaited, nullif(${field(1)}, 'null') as result${at}
), moved as (
  insert into ${jobs}.done (id, created_at, run_at, started_at, worker, attempt, queue_id, failures, lane, generation,
    attempts, state, timeout_ms, kind, key, limit_key, headers, payload, result${finishedAt})
  select id, created_at, run_at, claimed_at, worker, attempt, queue_id, failures, lane % 10000, generation,
    attempts, ${state}, timeout_ms, kind, key, limit_key, headers, payload, result${finishedAt}
  from mine
)${note(told)}
select count(*), ${AWAITED}${same} from mine`,
  );
  // Nothing is left of them but a number among the pruned, and their history where it is written whole.
  const forgotten = new NotedStatement(
    `${verb}_and_forget`,
    (jobs, note) => `
-- running -> ${word}, not kept
with mine as (
  delete from ${jobs}.job j
  where ${where}
  returning j.id, j.queue_id, j.lane, j.claimed_at, j.attempt, j.generation, j.awaited, ${field(1)} as result${at}
), counted as (
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
  select queue_id, lane % 10000, 5, 'epoch', count(*) from mine group by 1, 2
)${note(told)}
select ${within ? `count(*), ${AWAITED}` : "id, awaited"}${same} from mine`,
  );
  return { kept, forgotten };
}
