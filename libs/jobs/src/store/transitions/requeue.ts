import { type Runner, Statement } from "../../pg/statement.js";

// The attempt number goes on from where it was: the fence of an old attempt can never match again.
const requeueJob = new Statement(
  "requeue",
  (jobs) => `
-- dead | cancelled → queued: a person sends it again, as a new generation
with letter as materialized (
  select id, created_at, attempt, queue_id, lane, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload
  from ${jobs}.dead where id = $2::bigint and queue_id = $1::integer
  union all
  select id, created_at, attempt, queue_id, lane, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload
  from ${jobs}.done where id = $2::bigint and queue_id = $1::integer and state = 3
), sent as (
  insert into ${jobs}.job (id, run_at, created_at, attempt, lane, queue_id, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload)
  select id, now(), created_at, attempt, lane, queue_id, generation + 1, attempts, timeout_ms, kind, key, limit_key, headers,
    coalesce($3::text::jsonb, payload)
  from letter
  on conflict do nothing
  returning id
), dead as (
  delete from ${jobs}.dead d where d.queue_id = $1::integer and d.id = any(array(select id from sent))
), cancelled as (
  delete from ${jobs}.done d where d.queue_id = $1::integer and d.id = any(array(select id from sent)) and d.state = 3
)
select (select count(*) from letter), (select count(*) from sent), (
  select count(*) from ${jobs}.job j where j.queue_id = $1::integer and j.id = $2::bigint
) + (select count(*) from ${jobs}.done d where d.queue_id = $1::integer and d.id = $2::bigint),
  (select kind from letter), (select name from ${jobs}.queue where id = $1::integer)`,
);

export type RequeueAnswer = "queued" | "not-requeueable" | "key-taken" | "unknown";

/** Sends a dead letter (or a cancelled job) back to its queue; `payload` (JSON text) replaces the old one. */
export async function requeue(
  runner: Runner,
  queueId: number,
  id: string,
  payload: string | null,
): Promise<{ answer: RequeueAnswer; kind: string; queue: string }> {
  const [row] = await runner.run(requeueJob, [queueId, id, payload]);
  const [letters, sent, elsewhere, kind, queue] = row!;
  // Two people at once: the second sees the letter, and the job that the first made of it.
  const refused = elsewhere !== "0" ? "not-requeueable" : letters === "0" ? "unknown" : "key-taken";
  return { answer: sent !== "0" ? "queued" : refused, kind: kind ?? "", queue: queue ?? "" };
}
