import { type Runner, Statement } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, field } from "./fence.js";
import { type Writes, modeIs, tellAnswered } from "./noted.js";

// Locked first, judged under the lock: a claim or a settle that was on its way has the word before us. Nobody settles
// under the fence of an expired lease any more: without its worker the row does not look like that worker's success.
const cancelText = (jobs: string, control: boolean) => `
-- queued -> cancelled; running -> running, to be cancelled unless it succeeds or dies
with found as materialized (
  select j.id, j.kind, j.attempt, j.generation, j.worker, j.lease_until is null or j.lease_until < now() as free,
    j.cancel_at is null as first, j.awaited
  from ${jobs}.job j where j.queue_id = $1::integer and j.id = $2::bigint
  for update
), withdrawn as (
  delete from ${jobs}.job j where j.queue_id = $1::integer and j.id = any(array(select id from found where free))
  returning j.id, j.created_at, j.run_at, j.claimed_at, j.attempt, j.queue_id, j.failures, j.lane, j.generation,
    j.attempts, j.timeout_ms, j.kind, j.key, j.limit_key, j.headers, j.payload
), moved as (
  insert into ${jobs}.done (id, created_at, run_at, started_at, attempt, queue_id, failures, lane, generation,
    attempts, state, timeout_ms, kind, key, limit_key, headers, payload)
  select id, created_at, run_at, claimed_at, attempt, queue_id, failures, lane % 10000, generation,
    attempts, 3, timeout_ms, kind, key, limit_key, headers, payload
  from withdrawn
), asked as (
  update ${jobs}.job j set cancel_at = coalesce(j.cancel_at, now())
  where j.queue_id = $1::integer and j.id = any(array(select id from found where not free))
), told as (
  insert into ${jobs}.event (job_id, attempt, queue_id, generation, event)
  select id, attempt, $1::integer, generation, 'cancel-requested'
  from found where not free and first and ${modeIs(jobs, ["exceptions", "full"])}
)${control ? controlled(jobs) : ""}
select case when found.free then 'cancelled' else 'requested' end as answer, found.kind, q.name as queue,
  case when not found.free then found.worker end as worker, found.free and found.awaited
from found, ${jobs}.queue q where q.id = $1::integer`;

// Without a target of the conflict it needs no right to read: a producer has none.
const controlled = (jobs: string) => `, controlled as (
  insert into ${jobs}.control (worker, queue_id, job_id, attempt)
  select worker, $1::integer, id, attempt from found where not free
  on conflict do nothing
)`;

const cancelJob = new Statement("cancel", (jobs) => cancelText(jobs, false));
const cancelAndTell = new Statement("cancel_and_tell", (jobs) => cancelText(jobs, true));

// A statement of its own: its snapshot is younger than whatever the first one has waited for.
const findEnded = new Statement(
  "find_ended",
  (jobs) => `
select case d.state when 3 then 'cancelled' else 'not-cancellable' end as answer
from ${jobs}.done d where d.queue_id = $1::integer and d.id = $2::bigint
union all select 'not-cancellable' from ${jobs}.dead d where d.queue_id = $1::integer and d.id = $2::bigint
union all select 'not-cancellable' from ${jobs}.dead_archive d where d.queue_id = $1::integer and d.id = $2::bigint
union all select 'moved' from ${jobs}.job j where j.queue_id = $1::integer and j.id = $2::bigint`,
);

/**
 * `cancelled`: it will not start (any more). `requested`: it runs; unless it succeeds or dies it ends as cancelled,
 * and is not run again. `not-cancellable`: it has ended otherwise.
 */
export type CancelAnswer = "cancelled" | "requested" | "not-cancellable" | "unknown";

/** A job went from place to place under a cancel, again and again. */
export class JobMovesError extends Error {}

const MAX_ROUNDS = 10;

/** What has come of a cancel. */
export interface Cancelled {
  answer: CancelAnswer;
  /** It is this call that withdrew it. */
  now: boolean;
  kind: string;
  queue: string;
  /** Who holds the running job, and finds what was asked in its control rows. */
  worker: number | null;
  /** It is this call that withdrew it, and somebody waits for its result. */
  awaited: boolean;
}

/** Withdraws a queued job, asks for the end of a running one; with `control` its worker is to hear of it. */
export async function cancel(
  runner: Runner,
  queueId: number,
  id: string,
  { control = false } = {},
): Promise<Cancelled> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const [row] = await runner.run(control ? cancelAndTell : cancelJob, [queueId, id]);
    if (row) {
      const [answer, kind, queue, worker, awaited] = row;
      return {
        answer: answer as CancelAnswer,
        now: answer === "cancelled",
        kind: kind!,
        queue: queue!,
        worker: control && worker !== null ? Number(worker) : null,
        awaited: awaited?.startsWith("t") === true,
      };
    }
    const [ended] = await runner.run(findEnded, [queueId, id]);
    if (ended?.[0] === "moved") continue;
    const answer = (ended?.[0] ?? "unknown") as CancelAnswer;
    return { answer, now: false, kind: "", queue: "", worker: null, awaited: false };
  }
  throw new JobMovesError();
}

export interface CancelHeld extends Fence {
  /** JSON text of the error report, when the attempt has failed. */
  error: string | null;
}

const cancelHeldJobs = new Statement(
  "cancel_held",
  (jobs) => `
-- running -> cancelled: it was asked for, and the attempt neither succeeded nor was the last
with mine as (
  delete from ${jobs}.job j
  where ${fenced} and j.cancel_at is not null
  returning j.id, j.created_at, j.run_at, j.claimed_at, j.worker, j.attempt, j.queue_id, j.failures, j.lane, j.generation,
    j.attempts, j.timeout_ms, j.kind, j.key, j.limit_key, j.headers, j.payload, j.awaited, nullif(${field(1)}, 'null') as error
), noted as (
  insert into ${jobs}.attempt_error (job_id, started_at, attempt, worker, queue_id, generation, error)
  select id, claimed_at, attempt, worker, queue_id, generation, error from mine where error is not null
), moved as (
  insert into ${jobs}.done (id, created_at, run_at, started_at, worker, attempt, queue_id, failures, lane, generation,
    attempts, state, timeout_ms, kind, key, limit_key, headers, payload)
  select id, created_at, run_at, claimed_at, worker, attempt, queue_id, failures + (error is not null)::integer,
    lane % 10000, generation, attempts, 3, timeout_ms, kind, key, limit_key, headers, payload
  from mine
)
select id, awaited from mine`,
);

/** Ends attempts whose cancel was requested; answers those of the batch that were ours and asked to end. */
export async function cancelHeld(
  runner: Runner,
  queueId: number,
  worker: number,
  batch: readonly CancelHeld[],
  writes: Writes = {},
): Promise<Set<string>> {
  const rows = await runner.run(
    cancelHeldJobs,
    fenceValues(queueId, worker, batch, (one) => one.error ?? "null"),
  );
  tellAnswered(rows, writes);
  return new Set(rows.map(([id]) => id!));
}
