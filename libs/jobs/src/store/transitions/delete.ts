import { type Runner, Statement } from "../../pg/statement.js";

// Locked first, judged under the lock, as by a cancel: a claim or a settle that was on its way has the word before us. Who
// still runs it beyond its lease finds that it is not there: lost.
const deleteJob = new Statement(
  "delete",
  (jobs) => `
-- queued | succeeded | skipped | cancelled | dead -> nowhere: a person wants it gone
with found as materialized (
  select j.id, j.lease_until is null or j.lease_until < now() as free
  from ${jobs}.job j where j.queue_id = $1::integer and j.id = $2::bigint
  for update
), waiting as (
  delete from ${jobs}.job j where j.queue_id = $1::integer and j.id = any(array(select id from found where free))
  returning j.id, j.kind, j.lane % 10000 as lane, j.attempt, j.generation, coalesce(j.awaited, false) as awaited
), ${["done", "dead", "dead_archive"]
    .map(
      (place) => `${place}_gone as (
  delete from ${jobs}.${place} d where d.queue_id = $1::integer and d.id = $2::bigint
  returning d.id, d.kind, d.lane, d.attempt, d.generation, false as awaited
), `,
    )
    .join("")}gone as (
  select * from waiting
  union all select * from done_gone union all select * from dead_gone union all select * from dead_archive_gone
), counted as (
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
  select $1::integer, lane, 7, 'epoch', 1 from gone
), told as (
  insert into ${jobs}.event (job_id, attempt, queue_id, generation, event)
  select id, attempt, $1::integer, generation, 'deleted' from gone
  where (select q.history from ${jobs}.queue q where q.id = $1::integer) <> 'none'
)
select 'deleted', g.kind, q.name, g.awaited from gone g, ${jobs}.queue q where q.id = $1::integer
union all
select 'running', '', '', false from found where not free`,
);

// A statement of its own: its snapshot is younger than whatever the first one has waited for.
const isThere = new Statement("delete_again", (jobs) =>
  ["job", "done", "dead", "dead_archive"]
    .map(
      (place) =>
        `select 1 from ${jobs}.${place} d where d.queue_id = $1::integer and d.id = $2::bigint`,
    )
    .join("\nunion all "),
);

/** `running`: somebody has it; cancel it first. */
export type DeleteAnswer = "deleted" | "running" | "unknown";

/** A job went from place to place under a delete, again and again. */
const MAX_ROUNDS = 10;

/** What has come of a delete. */
export interface Deleted {
  answer: DeleteAnswer;
  kind: string;
  queue: string;
  /** Somebody waits for its result. */
  awaited: boolean;
}

/** Takes a job away for good, wherever it is, unless it runs. */
export async function deleteById(runner: Runner, queueId: number, id: string): Promise<Deleted> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const [row] = await runner.run(deleteJob, [queueId, id]);
    if (row) {
      const [answer, kind, queue, awaited] = row;
      return {
        answer: answer as DeleteAnswer,
        kind: kind!,
        queue: queue!,
        awaited: awaited!.startsWith("t"),
      };
    }
    if ((await runner.run(isThere, [queueId, id])).length === 0) break;
  }
  return { answer: "unknown", kind: "", queue: "", awaited: false };
}
