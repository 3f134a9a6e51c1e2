import { type Runner, Statement, arrayOf } from "../../pg/statement.js";

/** The schema that has the table. */
export const CONTROL_SINCE = 4;

/** An attempt that somebody wants to end; the whole fence, so that no later one is meant. */
export interface RequestedCancel {
  worker: number;
  queueId: number;
  id: string;
  attempt: number;
}

/** So many at once; the rest comes with the next. */
export const BATCH = 1_000;

const findRequested = new Statement(
  "find_requested_cancels",
  (jobs) => `
select c.worker, c.queue_id, c.job_id, c.attempt
from ${jobs}.control c where c.worker = any($1::integer[])
limit ${BATCH}`,
);

// Each row by its whole key: another cancel of the same job may have come since it was read.
const removeRequested = new Statement(
  "remove_requested_cancels",
  (jobs) => `
delete from ${jobs}.control c
where c.worker = any($1::integer[]) and (c.worker, c.queue_id, c.job_id, c.attempt) in (
  select one.* from unnest($1::integer[], $2::integer[], $3::bigint[], $4::integer[]) one)`,
);

/** What the workers of these ids are asked to end. */
export async function requestedCancels(
  runner: Runner,
  workers: Iterable<number>,
): Promise<RequestedCancel[]> {
  const rows = await runner.run(findRequested, [arrayOf(workers)]);
  return rows.map(([worker, queueId, id, attempt]) => ({
    worker: Number(worker),
    queueId: Number(queueId),
    id: id!,
    attempt: Number(attempt),
  }));
}

/** They were heeded, or there is nothing to end any more. */
export async function forgetCancels(
  runner: Runner,
  some: readonly RequestedCancel[],
): Promise<void> {
  await runner.run(removeRequested, [
    arrayOf(some.map((one) => one.worker)),
    arrayOf(some.map((one) => one.queueId)),
    arrayOf(some.map((one) => one.id)),
    arrayOf(some.map((one) => one.attempt)),
  ]);
}
