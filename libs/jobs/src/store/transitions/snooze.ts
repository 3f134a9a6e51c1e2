import type { Runner } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, field, textField } from "./fence.js";
import { NotedStatement, type Writes } from "./noted.js";

export interface Snooze extends Fence {
  delayMs: number;
}

const snoozeJobs = new NotedStatement(
  "snooze",
  (jobs, note) => `
-- running -> queued: later, and no failure
with mine as (
  update ${jobs}.job j
  set lease_until = null, worker = null, crashes = 0, lane = j.lane % 10000,
    run_at = to_timestamp(extract(epoch from now())::float8 + (${textField(1)})::float8 / 1000)
  where ${fenced} and j.cancel_at is null
  returning j.id, j.queue_id, j.claimed_at, j.attempt, j.generation, ${field(1)} as delay
)${note({ event: "snoozed", from: "mine", modes: ["exceptions", "full"], details: "jsonb_build_object('delayMs', delay)" })}
select id from mine`,
);

/** Puts jobs off without counting a failure; answers those of the batch that were still ours. */
export async function snooze(
  runner: Runner,
  queueId: number,
  worker: number,
  batch: readonly Snooze[],
  writes: Writes = {},
): Promise<Set<string>> {
  const rows = await runner.run(
    snoozeJobs.for(writes),
    fenceValues(queueId, worker, batch, (one) => String(one.delayMs)),
  );
  return new Set(rows.map(([id]) => id!));
}
