import type { Runner } from "../../pg/statement.js";
import { type Fence, fenceValues, fenced, textField } from "./fence.js";
import { NotedStatement, type Writes } from "./noted.js";

export interface HandBack extends Fence {
  /** It ran here and its process lived: earlier crashes are forgiven. Never started: they stay. */
  started: boolean;
  /** A suspect, to be run alone: into its lane + 20,000, its crashes kept. */
  quarantine: boolean;
  /** It stood in a lane of another kind: into that of its own, if there is one. */
  misplaced?: boolean;
}

/** The lane of a job's kind that has the priority of the one that it stands in. */
const ownLane = (jobs: string) => `
      select own.id from ${jobs}.lane own
      where own.queue_id = j.queue_id and own.kind = j.kind and own.priority = coalesce(
        (select l.priority from ${jobs}.lane l where l.queue_id = j.queue_id and l.id = j.lane % 10000), 0)`;

const handBackJobs = new NotedStatement(
  "hand_back",
  (jobs, note) => `
-- running -> queued: given back, no attempt spent
with mine as (
  update ${jobs}.job j
  set lease_until = null, worker = null,
    crashes = case when (${textField(1)})::boolean then 0 else j.crashes end,
    lane = case when (${textField(2)})::boolean then j.lane % 10000 + 20000
                when (${textField(1)})::boolean then j.lane % 10000
                when (${textField(3)})::boolean then coalesce((${ownLane(jobs)}) + j.lane / 10000 * 10000, j.lane)
                else j.lane end
  where ${fenced} and j.cancel_at is null
  returning j.id, j.queue_id, j.claimed_at, j.attempt, j.generation
)${note({ event: "handed-back", from: "mine", modes: ["exceptions", "full"] })}
select id from mine`,
);

/** Returns claims to their queue at once; answers those of the batch that were still ours. */
export async function handBack(
  runner: Runner,
  queueId: number,
  worker: number,
  batch: readonly HandBack[],
  writes: Writes = {},
): Promise<Set<string>> {
  const rows = await runner.run(
    handBackJobs.for(writes),
    fenceValues(
      queueId,
      worker,
      batch,
      (one) => `${one.started},${one.quarantine},${one.misplaced === true}`,
    ),
  );
  return new Set(rows.map(([id]) => id!));
}
