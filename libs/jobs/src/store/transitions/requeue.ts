import { type Runner, Statement } from "../../pg/statement.js";

// The attempt number goes on from where it was: the fence of an old attempt can never match again.
// The letter is locked first: of two people at once the second finds it gone, also when the job has been run since.
const requeueJob = new Statement(
  "requeue",
  (jobs) => `
-- dead | cancelled → queued: a person sends it again, as a new generation
with letter as materialized (
  select id, created_at, attempt, queue_id, lane, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload
  from ${jobs}.dead where id = $2::bigint and queue_id = $1::integer
  for update
), withdrawn as materialized (
  select id, created_at, attempt, queue_id, lane, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload
  from ${jobs}.done where id = $2::bigint and queue_id = $1::integer and state = 3
  for update
), sent as (
  insert into ${jobs}.job (id, run_at, created_at, attempt, lane, queue_id, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload)
  select id, now(), created_at, attempt, lane, queue_id, generation + 1, attempts, timeout_ms, kind, key, limit_key, headers,
    coalesce($3::text::jsonb, payload)
  from (select * from letter union all select * from withdrawn) one
  on conflict do nothing
  returning id, kind
), dead as (
  delete from ${jobs}.dead d where d.queue_id = $1::integer and d.id = any(array(select id from sent))
), cancelled as (
  delete from ${jobs}.done d where d.queue_id = $1::integer and d.id = any(array(select id from sent)) and d.state = 3
)
select sent.kind, q.name
from (select from letter union all select from withdrawn) found
left join sent on true
left join ${jobs}.queue q on q.id = $1::integer`,
);

// A statement of its own: its snapshot is younger than whatever the first one has waited for. A letter that it
// finds is of a later death than the one that the person saw.
const findJob = new Statement(
  "find_job",
  (jobs) => `
select 1 from ${jobs}.dead d where d.queue_id = $1::integer and d.id = $2::bigint
union all select 1 from ${jobs}.job j where j.queue_id = $1::integer and j.id = $2::bigint
union all select 1 from ${jobs}.done d where d.queue_id = $1::integer and d.id = $2::bigint
limit 1`,
);

export type RequeueAnswer = "queued" | "not-requeueable" | "key-taken" | "unknown";

/** Sends a dead letter (or a cancelled job) back to its queue; `payload` (JSON text) replaces the old one. */
export async function requeue(
  runner: Runner,
  queueId: number,
  id: string,
  payload: string | null,
): Promise<{ answer: RequeueAnswer; kind: string; queue: string }> {
  const refused = (answer: RequeueAnswer) => ({ answer, kind: "", queue: "" });
  const [letter] = await runner.run(requeueJob, [queueId, id, payload]);
  if (letter) {
    const [kind, queue] = letter;
    // It stood there, locked by us: only its key can have kept it from its queue.
    return kind ? { answer: "queued", kind, queue: queue! } : refused("key-taken");
  }
  const [found] = await runner.run(findJob, [queueId, id]);
  return refused(found ? "not-requeueable" : "unknown");
}
