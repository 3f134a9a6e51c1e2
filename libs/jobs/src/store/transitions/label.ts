import { type Runner, Statement } from "../../pg/statement.js";
import type { Holder } from "./enqueue.js";
import type { NewJob } from "./new-jobs.js";

// The function that decides what becomes of a call with a window or a replacement knows nothing of headers. What it has
// made or changed is ours until the transaction ends: they are written behind it.

// A SELECT to the outside: it goes on callers' transactions too, and TypeORM answers an UPDATE in a form of its own.
const labelJobs = new Statement(
  "label_jobs",
  (jobs) => `
-- queued -> queued
with labelled as (
  update ${jobs}.job j set headers = one.headers
  from jsonb_to_recordset($2::text::jsonb) as one (id bigint, headers jsonb)
  where j.queue_id = $1::integer and j.id = one.id
  returning 1
)
select count(*) from labelled`,
);

/** Writes the headers of jobs that have just been made, or have a payload that has just been replaced. */
export async function label(
  runner: Runner,
  queueId: number,
  batch: readonly NewJob[],
  holders: readonly Holder[],
): Promise<void> {
  const labels = batch.flatMap((job, place) => {
    const holder = holders[place]!;
    const carries = holder.id === job.id || (holder.replaced === true && replacesPayload(job));
    return job.headers !== undefined && carries
      ? `{"id":${holder.id},"headers":${job.headers}}`
      : [];
  });
  if (labels.length > 0) await runner.run(labelJobs, [queueId, `[${labels.join(",")}]`]);
}

const replacesPayload = ({ unique }: NewJob): boolean =>
  unique?.onConflict === "replace" || unique?.onConflict === "replace-payload";
