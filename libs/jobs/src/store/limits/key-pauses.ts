import type { PauseOrder } from "../../job/pause.js";
import { type Runner, Statement } from "../../pg/statement.js";

// Every claim of a queue with limits reads them: from the commit of a pause on nothing of its key starts.

const pauseKey = new Statement(
  "pause_key",
  (jobs) => `
with rule as materialized (
  -- it may be taken away just now
  select r.queue_id, r.id from ${jobs}.limit_rule r where r.queue_id = $1::integer and r.id = $2::smallint for key share
)
insert into ${jobs}.key_pause as p (queue_id, limit_id, key, paused_until, paused_by, paused_why)
select rule.queue_id, rule.id, $3::text, $4::timestamptz, $5::text, $6::text from rule
on conflict (queue_id, limit_id, key) do update set
  paused_at = case when p.paused_until <= excluded.paused_at then excluded.paused_at else p.paused_at end,
  paused_until = excluded.paused_until, paused_by = excluded.paused_by, paused_why = excluded.paused_why
returning p.limit_id`,
);

const resumeKey = new Statement(
  "resume_key",
  (jobs) => `
delete from ${jobs}.key_pause p
where p.queue_id = $1::integer and p.limit_id = $2::smallint and (p.key = $3::text or p.paused_until <= now())`,
);

/** Pauses the jobs of a key that this rule knows, or changes what was said of the pause that stands; false: there is no such rule any more. */
export async function pause(
  runner: Runner,
  queueId: number,
  ruleId: number,
  key: string,
  { until, by, why }: PauseOrder,
): Promise<boolean> {
  const values = [queueId, ruleId, key, until?.toISOString() ?? null, by, why];
  return (await runner.run(pauseKey, values)).length > 0;
}

/** Ends such a pause, if there is one; those that are over go with it. */
export async function resume(
  runner: Runner,
  queueId: number,
  ruleId: number,
  key: string,
): Promise<void> {
  await runner.run(resumeKey, [queueId, ruleId, key]);
}
