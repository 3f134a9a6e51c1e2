import { type Runner, Statement } from "../../pg/statement.js";

const takeChore = new Statement(
  "take_chore",
  (jobs) => `
update ${jobs}.chore set due_at = now() + every where name = $1::text and (due_at <= now() or $2::boolean) returning name`,
);

const rollUpStats = new Statement(
  "roll_up",
  (jobs) => `
with deltas as (
  delete from ${jobs}.stat_delta returning queue_id, lane, state, day, n
), sums as (
  select queue_id, lane, state, day, sum(n) as n from deltas group by 1, 2, 3, 4
)
insert into ${jobs}.stat as s (queue_id, lane, state, day, n)
select queue_id, lane, state, day, n from sums where n <> 0
on conflict (queue_id, lane, state, day) do update set n = s.n + excluded.n`,
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

/** Folds the counters' deltas into their sums. */
export async function rollUp(runner: Runner): Promise<void> {
  await runner.run(rollUpStats);
}
