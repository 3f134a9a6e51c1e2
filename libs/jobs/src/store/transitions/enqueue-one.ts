import { Statement } from "../../pg/statement.js";
import { NEW_JOB_COLUMNS, type NewJob } from "./new-jobs.js";

// What one caller after another sends: a job alone, without a key. Nothing is a list, and the row is made of its lane,
// so that there is none unless queue and lane stand as they are known (docs/adr/0005-jobs-as-lists.md has figures).
const inserting = (jobs: string, headers?: string) => `
-- -> queued
insert into ${jobs}.job (${NEW_JOB_COLUMNS}${headers === undefined ? "" : ", headers"})
select $1::bigint, l.queue_id, l.id, l.kind,
  coalesce($2::timestamptz, to_timestamp(extract(epoch from statement_timestamp())::float8 + $3::float8 / 1000)),
  $4::smallint, $5::bigint, null, $6::text::jsonb${headers === undefined ? "" : `, ${headers}::text::jsonb`}
from ${jobs}.queue q join ${jobs}.lane l on l.queue_id = q.id
where q.id = $7::integer and q.name = $8::text and l.id = $9::smallint and l.kind = $10::text and l.priority = $11::smallint
returning id`;

export const insertOne = new Statement("enqueue_one", (jobs) => inserting(jobs));
/** The same with headers, which come last. */
export const insertOneWithHeaders = new Statement("enqueue_one_with_headers", (jobs) =>
  inserting(jobs, "$12"),
);

/** Its parameters; absent when the batch is not of one job, or its lane is not to be checked. */
export function oneValues(queueId: number, batch: readonly NewJob[]): unknown[] | undefined {
  const [job] = batch as [NewJob, ...NewJob[]];
  if (batch.length > 1 || job.key !== null || job.looked === true) return undefined;
  return [
    job.id,
    job.at === null ? null : job.at.toISOString(),
    job.delayMs,
    job.attempts,
    job.timeoutMs,
    job.payload,
    queueId,
    job.queue,
    job.lane,
    job.kind,
    job.priority,
  ];
}
