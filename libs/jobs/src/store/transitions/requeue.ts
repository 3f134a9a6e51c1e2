import { type Runner, Statement } from "../../pg/statement.js";
import type { Writes } from "./noted.js";

// The attempt number goes on from where it was: the fence of an old attempt can never match again.
// The letter is locked first: of two people at once the second finds it gone, also when the job has been run since.
const letterColumns =
  "id, created_at, attempt, queue_id, lane, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload, started_at, worker, finished_at";

/** Where a letter may lie. A schema of the release before has no archive and no history. */
const places = (archive: boolean) => (archive ? ["dead", "dead_archive"] : ["dead"]);

const requeueText = (jobs: string, archive: boolean) => `
-- dead | cancelled -> queued: a person sends it again, as a new generation
with ${places(archive)
  .map(
    (place) => `${place}_letter as materialized (
  select ${letterColumns}, 'died' as ended, jsonb_build_object('reason', reason, 'error', error) as why
  from ${jobs}.${place} where id = $2::bigint and queue_id = $1::integer
  for update
), `,
  )
  .join("")}withdrawn as materialized (
  select ${letterColumns}, 'cancelled' as ended, '{}'::jsonb as why
  from ${jobs}.done where id = $2::bigint and queue_id = $1::integer and state = 3
  for update
), letter as materialized (
  ${[...places(archive).map((place) => `${place}_letter`), "withdrawn"]
    .map((place) => `select ${letterColumns}, ended, why from ${place}`)
    .join(" union all ")}
), sent as (
  insert into ${jobs}.job (id, run_at, created_at, attempt, lane, queue_id, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload)
  select id, now(), created_at, attempt, lane, queue_id, generation + 1, attempts, timeout_ms, kind, key, limit_key, headers,
    coalesce($3::text::jsonb, payload)
  from letter
  on conflict do nothing
  returning id, kind
), ${places(archive)
  .map(
    (place) => `${place}_gone as (
  delete from ${jobs}.${place} d where d.queue_id = $1::integer and d.id = any(array(select id from sent))
), `,
  )
  .join("")}cancelled_gone as (
  delete from ${jobs}.done d where d.queue_id = $1::integer and d.id = any(array(select id from sent)) and d.state = 3
)${archive ? told(jobs) : ""}
select sent.kind, q.name
from (select from letter) found
left join sent on true
left join ${jobs}.queue q on q.id = $1::integer`;

/** How it had ended goes with it: what is requeued is nowhere else. */
const told = (jobs: string) => `, told as (
  insert into ${jobs}.event (job_id, started_at, attempt, worker, queue_id, generation, event, details)
  select l.id, l.started_at, l.attempt, l.worker, l.queue_id, l.generation + 1, 'requeued',
    jsonb_build_object('ended', l.ended, 'finishedAt', l.finished_at) || l.why
  from letter l, sent
  where (select q.history from ${jobs}.queue q where q.id = $1::integer) <> 'none'
)`;

const requeueJob = new Statement("requeue", (jobs) => requeueText(jobs, false));
const requeueAndTell = new Statement("requeue_noted", (jobs) => requeueText(jobs, true));

// A statement of its own: its snapshot is younger than whatever the first one has waited for. A letter that it
// finds is of a later death than the one that the person saw, or has gone to the archive meanwhile.
const findText = (jobs: string, archive: boolean) =>
  [...places(archive), "job", "done"]
    .map(
      (place) =>
        `select '${place}' from ${jobs}.${place} d where d.queue_id = $1::integer and d.id = $2::bigint`,
    )
    .join("\nunion all ");
const findJob = new Statement("find_job", (jobs) => findText(jobs, false));
const findJobOrArchived = new Statement("find_job_or_archived", (jobs) => findText(jobs, true));

export type RequeueAnswer = "queued" | "not-requeueable" | "key-taken" | "unknown";

/** Sends a dead letter (or a cancelled job) back to its queue; `payload` (JSON text) replaces the old one. */
export async function requeue(
  runner: Runner,
  queueId: number,
  id: string,
  payload: string | null,
  { history = false }: Writes = {},
): Promise<{ answer: RequeueAnswer; kind: string; queue: string }> {
  const refused = (answer: RequeueAnswer) => ({ answer, kind: "", queue: "" });
  for (let round = 1; ; round++) {
    const values = [queueId, id, payload];
    const [letter] = await runner.run(history ? requeueAndTell : requeueJob, values);
    if (letter) {
      const [kind, queue] = letter;
      // It stood there, locked by us: only its key can have kept it from its queue.
      return kind ? { answer: "queued", kind, queue: queue! } : refused("key-taken");
    }
    const [found] = await runner.run(history ? findJobOrArchived : findJob, [queueId, id]);
    // Nothing goes on from the archive but by a requeue: the second look finds it.
    if (found?.[0] === "dead_archive" && round === 1) continue;
    return refused(found ? "not-requeueable" : "unknown");
  }
}
