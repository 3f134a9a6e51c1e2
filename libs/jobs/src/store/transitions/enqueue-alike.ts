import { Statement, arrayOf } from "../../pg/statement.js";
import { standingAlone } from "../queues/standing.js";
import { NEW_JOB_COLUMNS, type NewJob, isLike } from "./new-jobs.js";

// What nearly all lists are: jobs of one sort, due at once or after one delay, without keys. All that they have in
// common comes as plain values and is worked out once (docs/adr/0005-jobs-as-lists.md has figures).
export const insertAlike = new Statement(
  "enqueue_alike",
  (jobs) => `
-- -> queued
with ${standingAlone(jobs, { queueId: "$1::integer", lane: "$2::smallint", queue: "$3::text", kind: "$4::text", priority: "$5::smallint" })},
inserted as (
  insert into ${jobs}.job (${NEW_JOB_COLUMNS})
  select id, $1::integer, $2::smallint, $4::text,
    (select to_timestamp(extract(epoch from statement_timestamp())::float8 + $6::float8 / 1000)),
    $7::smallint, $8::bigint, null, payload
  from rows from (unnest($9::bigint[]), jsonb_array_elements($10::text::jsonb)) as new (id, payload)
  where exists (select from stands)
)
select 'stale' where not exists (select from stands)`,
);

/** Its parameters; absent when the jobs are not alike. */
export function alikeValues(queueId: number, batch: readonly NewJob[]): unknown[] | undefined {
  const [first] = batch as [NewJob, ...NewJob[]];
  const ids: string[] = [];
  let payloads = "";
  let looked = true;
  for (const job of batch) {
    if (job.key !== null || job.at !== null || job.delayMs !== first.delayMs) return undefined;
    if (job !== first && !isOfOneQueueAndLike(job, first)) return undefined;
    ids.push(job.id);
    payloads += `${payloads === "" ? "[" : ","}${job.payload}`;
    looked &&= job.looked === true;
  }
  return [
    queueId,
    first.lane,
    looked ? null : first.queue,
    first.kind,
    first.priority,
    first.delayMs,
    first.attempts,
    first.timeoutMs,
    arrayOf(ids),
    `${payloads}]`,
  ];
}

const isOfOneQueueAndLike = (job: NewJob, first: NewJob): boolean =>
  job.queue === first.queue && job.priority === first.priority && isLike(job, first);
