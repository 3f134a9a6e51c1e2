import { type Runner, Statement } from "../../pg/statement.js";

const takeChore = new Statement(
  "take_chore",
  (jobs) => `
update ${jobs}.chore set due_at = now() + every where name = $1::text and (due_at <= now() or $2::boolean) returning name`,
);

// By row address: deltas are never changed. Two of these may run at once: a scan by address goes in its order, and the
// sums are sorted, so that neither waits for one that waits for it.
const rollUpStats = new Statement(
  "roll_up",
  (jobs) => `
with taken as materialized (
  select d.ctid as at from ${jobs}.stat_delta d limit $1::integer
), deltas as (
  delete from ${jobs}.stat_delta d where d.ctid = any(array(select at from taken))
  returning d.queue_id, d.lane, d.state, d.day, d.n
), sums as (
  select queue_id, lane, state, day, sum(n) as n from deltas group by 1, 2, 3, 4
), summed as (
  insert into ${jobs}.stat as s (queue_id, lane, state, day, n)
  select queue_id, lane, state, day, n from sums where n <> 0 order by 1, 2, 3, 4
  on conflict (queue_id, lane, state, day) do update set n = s.n + excluded.n
)
select count(*) from taken`,
);

const putOffChore = new Statement(
  "put_off_chore",
  (jobs) => `
update ${jobs}.chore set due_at = least(due_at, now() + interval '1 minute') where name = $1::text`,
);

/** The right to take no jobs for as long as it takes to run a suspect alone: of all processes one has it. */
export const SECLUSION = "seclusion";

/** Whoever moves the chore's due time runs it; `mine`: whoever has it keeps it. */
export async function takeTurn(
  runner: Runner,
  name: string,
  { mine = false } = {},
): Promise<boolean> {
  return (await runner.run(takeChore, [name, mine])).length > 0;
}

/** It has failed: somebody tries again in a minute. */
export async function putOff(runner: Runner, name: string): Promise<void> {
  await runner.run(putOffChore, [name]);
}

/** So many deltas, or fewer, in one statement: somebody may have enqueued ten million jobs one by one. */
const BATCH = 20_000;
/** The rest comes with the next turn. */
const MAX_BATCHES = 500;

/** Folds the counters' deltas into their sums. */
export async function rollUp(runner: Runner, batch = BATCH): Promise<void> {
  for (let n = 0; n < MAX_BATCHES; n++) {
    const [row] = await runner.run(rollUpStats, [batch]);
    if (Number(row![0]) < batch) return;
  }
}
