import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { STANDS, StaleLanesError, standing, standingValues } from "../queues/standing.js";
import { briefValue, waitsBriefly } from "./brief-wait.js";
import { type Holder, byKey } from "./enqueue.js";
import type { NewJob } from "./new-jobs.js";
import type { ParentAttempt } from "./enqueue-fenced.js";

// Calls with a window or with something to replace. What becomes of each is decided by the function, job by job
// in the order of the keys: the same one that SQL callers use.

const columns = `(id bigint, lane smallint, kind text, delay float8, at timestamptz, attempts smallint, timeout bigint,
  key text, payload jsonb, window_ms float8, conflict text)`;

const place = (
  jobs: string,
  queueId: string,
) => `${jobs}.enqueue_one(${queueId}, new.id, new.lane, new.kind,
    coalesce(new.at, to_timestamp(extract(epoch from statement_timestamp())::float8 + new.delay / 1000)), new.attempts, new.timeout,
    new.key, coalesce(new.payload, 'null'), new.window_ms * interval '1 ms', coalesce(new.conflict, 'keep'))`;

const insertUnique = new Statement(
  "enqueue_unique",
  (jobs) => `
-- -> queued, or queued -> queued with what replaces it
with ${standing(jobs, "$1::integer", 3)}
select new.id::text as fresh, placed.id::text as holder, placed.outcome
from jsonb_to_recordset($2::text::jsonb) as new ${columns}
cross join lateral ${place(jobs, "$1::integer")} placed
where ${STANDS} and ${waitsBriefly("$5")}
union all select null, null, null where not ${STANDS}`,
);

// The share lock makes a take-over wait until this is committed, and this impossible after it. The function's queue
// comes from the locked row: else the planner may call it before it looks whether there is one.
const insertUniqueForAttempt = new Statement(
  "enqueue_unique_fenced",
  (jobs) => `
-- -> queued, or replaced, if the parent's attempt is still the current one
with ${standing(jobs, "$5::integer", 7)}, me as materialized (
  select $5::integer as of_queue from ${jobs}.job j
  where j.queue_id = $1::integer and j.id = $2::bigint and j.attempt = $3::integer and j.worker = $4::integer
    and j.lease_until is not null
  for share
)
select new.id::text as fresh, placed.id::text as holder, placed.outcome
from me
cross join lateral jsonb_to_recordset($6::text::jsonb) as new ${columns}
cross join lateral ${place(jobs, "me.of_queue")} placed
where ${STANDS} and ${waitsBriefly("$9")}
union all select null, null, null where not ${STANDS}`,
);

/** The batch as the record sets of the statements read it. */
function asRecords(batch: readonly NewJob[]): string {
  // By hand: the payload is JSON text already and would be parsed and written again.
  let text = "";
  for (const job of batch) {
    text += `${text === "" ? "[" : ","}{"id":${job.id},"lane":${job.lane},"kind":${JSON.stringify(job.kind)},"payload":${job.payload}`;
    text += job.at === null ? `,"delay":${job.delayMs}` : `,"at":"${job.at.toISOString()}"`;
    if (job.attempts !== null) text += `,"attempts":${job.attempts}`;
    if (job.timeoutMs !== null) text += `,"timeout":${job.timeoutMs}`;
    if (job.key !== null) text += `,"key":${JSON.stringify(job.key)}`;
    if (job.unique) {
      text += `,"conflict":"${job.unique.onConflict}"`;
      if (job.unique.windowMs !== null) text += `,"window_ms":${job.unique.windowMs}`;
    }
    text += "}";
  }
  return `${text}]`;
}

/** Jobs of one queue, each key at most once a call; answers for each, in order, which job has its key then. @throws StaleLanesError */
export async function enqueueUnique(
  runner: Runner,
  queueId: number,
  batch: readonly NewJob[],
  lockMs?: number,
): Promise<Holder[]> {
  const sorted = batch.toSorted(byKey);
  const values = [queueId, asRecords(sorted), ...standingValues(sorted), briefValue(lockMs)];
  const holders = read(await runner.run(insertUnique, values));
  return batch.map((job) => holderOf(job, holders));
}

/** The same for one job on behalf of a running attempt; 'lost' when that is not the current one any more. */
export async function enqueueUniqueFenced(
  runner: Runner,
  parent: ParentAttempt,
  queueId: number,
  job: NewJob,
  lockMs?: number,
): Promise<Holder | "lost"> {
  const { id, attempt, worker } = parent;
  const fence = [parent.queueId, id, attempt, worker];
  const what = [queueId, asRecords([job]), ...standingValues([job])];
  const values = [...fence, ...what, briefValue(lockMs)];
  const holders = read(await runner.run(insertUniqueForAttempt, values));
  return holders.size === 0 ? "lost" : holderOf(job, holders);
}

interface Placed {
  holder: string;
  outcome: string;
}

function read(rows: readonly Row[]): Map<string, Placed> {
  if (rows.length === 1 && rows[0]![0] === null) throw new StaleLanesError();
  return new Map(
    rows.map(([fresh, holder, outcome]) => [fresh!, { holder: holder!, outcome: outcome! }]),
  );
}

function holderOf(job: NewJob, holders: ReadonlyMap<string, Placed>): Holder {
  const { holder, outcome } = holders.get(job.id)!;
  if (outcome === "created") return job;
  return replaces(job) ? { id: holder, replaced: outcome === "replaced" } : { id: holder };
}

/** Whether the call wanted to change a job that holds its key. */
export const replaces = (job: NewJob): boolean => (job.unique?.onConflict ?? "keep") !== "keep";
