import { type Runner, Statement, arrayOf } from "../../pg/statement.js";
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
  update ${jobs}.job j set headers = $3::text::jsonb -> j.id::text
  where j.queue_id = $1::integer and j.id = any($2::bigint[])
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
  const labels = new Map<string, string>();
  for (const [place, job] of batch.entries()) {
    const holder = holders[place]!;
    const carries = holder.id === job.id || (holder.replaced === true && replacesPayload(job));
    // Of two with the same key the later one has replaced the payload of the other.
    if (job.headers !== undefined && carries)
      labels.set(holder.id, `"${holder.id}":${job.headers}`);
  }
  if (labels.size === 0) return;
  const text = `{${[...labels.values()].join(",")}}`;
  await runner.run(labelJobs, [queueId, arrayOf(labels.keys()), text]);
}

const replacesPayload = ({ unique }: NewJob): boolean =>
  unique?.onConflict === "replace" || unique?.onConflict === "replace-payload";
