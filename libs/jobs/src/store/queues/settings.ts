import { type Runner, Statement } from "../../pg/statement.js";

/** What workers say of a queue, and every process heeds. */
export interface QueueSettings {
  history: "none" | "exceptions" | "full";
  /** Ages of dead letters; null = never. */
  archiveDeadMs: number | null;
  pruneDeadMs: number | null;
}

// Written, and locked, only when it differs: a transaction that has made a lane holds the row until it ends, and who
// starts with what stands there already waits for nobody. "Who started last" is told only of a change.
const applySettings = new Statement(
  "apply_queue_settings",
  (jobs) => `
with said as (
  select $2::text as history, $3::float8 * interval '1 ms' as archive_dead, $4::float8 * interval '1 ms' as prune_dead
), before as materialized (
  select q.id, q.history, q.archive_dead, q.prune_dead from ${jobs}.queue q, said
  where q.id = $1::integer
    and (q.history, q.archive_dead, q.prune_dead) is distinct from (said.history, said.archive_dead, said.prune_dead)
  for update of q
)
update ${jobs}.queue q
set history = said.history, archive_dead = said.archive_dead, prune_dead = said.prune_dead
from said, before
where q.id = before.id
returning before.history, extract(epoch from before.archive_dead) * 1000, extract(epoch from before.prune_dead) * 1000`,
);

/** Sets what this worker was told; answers what held before, when anything was changed. */
export async function applyQueueSettings(
  runner: Runner,
  queueId: number,
  { history, archiveDeadMs, pruneDeadMs }: QueueSettings,
): Promise<QueueSettings | undefined> {
  const [row] = await runner.run(applySettings, [queueId, history, archiveDeadMs, pruneDeadMs]);
  if (!row) return undefined;
  const ms = (found: string | null | undefined) =>
    found === null || found === undefined ? null : Number(found);
  return {
    history: row[0] as QueueSettings["history"],
    archiveDeadMs: ms(row[1]),
    pruneDeadMs: ms(row[2]),
  };
}
