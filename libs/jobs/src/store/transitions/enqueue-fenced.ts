import { type Runner, Statement } from "../../pg/statement.js";
import { STANDS, StaleLanesError, standing, standingValues } from "../queues/standing.js";
import { briefValue, waitsBriefly } from "./brief-wait.js";
import type { NewJob } from "./new-jobs.js";

// The share lock makes a take-over wait until the child is committed, and the child impossible after it.
const inserting = (jobs: string, condition = "") => `
-- -> queued, if the parent's attempt is still the current one
with ${standing(jobs, "$6::integer", 15)}, me as materialized (
  select 1 from ${jobs}.job j
  where j.queue_id = $1::integer and j.id = $2::bigint and j.attempt = $3::integer and j.worker = $4::integer
    and j.lease_until is not null
  for share
), inserted as (
  insert into ${jobs}.job (id, queue_id, lane, kind, run_at, attempts, timeout_ms, key, payload)
  select $5::bigint, $6::integer, $7::smallint, $8::text,
    coalesce($9::timestamptz, to_timestamp(extract(epoch from statement_timestamp())::float8 + $10::float8 / 1000)),
    $11::smallint, $12::bigint, $13::text, $14::text::jsonb
  from me where ${STANDS}${condition}
  on conflict do nothing
  returning id
)
select (select count(*) from me), (select count(*) from inserted), ${STANDS}::text`;

const insertForAttempt = new Statement("enqueue_fenced", (jobs) => inserting(jobs));

const insertKeyedForAttempt = new Statement("enqueue_keyed_fenced", (jobs) =>
  inserting(jobs, ` and ${waitsBriefly("$17")}`),
);

export interface ParentAttempt {
  queueId: number;
  id: string;
  attempt: number;
  worker: number;
}

/** Inserts one job on behalf of a running attempt; 'lost' when that attempt is not the current one any more. @throws StaleLanesError */
export async function enqueueFenced(
  runner: Runner,
  parent: ParentAttempt,
  queueId: number,
  job: NewJob,
  lockMs?: number,
): Promise<"inserted" | "refused" | "lost"> {
  const keyed = job.key !== null;
  const statement = keyed ? insertKeyedForAttempt : insertForAttempt;
  const [[me, inserted, stands]] = (await runner.run(statement, [
    parent.queueId,
    parent.id,
    parent.attempt,
    parent.worker,
    job.id,
    queueId,
    job.lane,
    job.kind,
    job.at?.toISOString() ?? null,
    job.delayMs,
    job.attempts,
    job.timeoutMs,
    job.key,
    job.payload,
    ...standingValues([job]),
    ...(keyed ? [briefValue(lockMs)] : []),
  ])) as [[string, string, string]];
  if (me === "0") return "lost";
  if (stands === "false") throw new StaleLanesError();
  return inserted === "0" ? "refused" : "inserted";
}
