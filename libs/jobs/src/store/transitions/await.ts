import { type Runner, Statement } from "../../pg/statement.js";
import { type Sought, soughtValues } from "../reads/outcomes.js";

// What somebody has locked is left out: he may just be settling it, and nobody waits for him here.
const awaitJobs = new Statement(
  null,
  (jobs) => `
-- queued -> queued, running -> running: whoever ends it is asked to tell
with free as materialized (
  select j.id from ${jobs}.job j
  where j.id = any($2::bigint[]) and j.queue_id = any($1::integer[]) and j.awaited is not true
  for no key update skip locked
)
update ${jobs}.job j set awaited = true
where j.id = any(array(select id from free)) and j.queue_id = any($1::integer[])
returning j.id`,
);

/** Marks unfinished jobs, so that their settle tells of them; answers the numbers of those that were marked. */
export async function markAwaited(runner: Runner, sought: readonly Sought[]): Promise<Set<string>> {
  const rows = await runner.run(awaitJobs, soughtValues(sought));
  return new Set(rows.map(([id]) => id!));
}
