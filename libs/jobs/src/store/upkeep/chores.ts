import { type Runner, Statement } from "../../pg/statement.js";

const takeChore = new Statement(
  "take_chore",
  (jobs) => `
update ${jobs}.chore set due_at = now() + every where name = $1::text and (due_at <= now() or $2::boolean) returning name`,
);

const putOffChore = new Statement(
  "put_off_chore",
  (jobs) => `
update ${jobs}.chore set due_at = least(due_at, now() + interval '1 minute') where name = $1::text`,
);

const delayChore = new Statement(
  "delay_chore",
  (jobs) => `
update ${jobs}.chore set due_at = greatest(due_at, now() + $2::float8 * interval '1 ms') where name = $1::text`,
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

/** Nobody runs it for so long. */
export async function delay(runner: Runner, name: string, ms: number): Promise<void> {
  await runner.run(delayChore, [name, ms]);
}

/** It has failed: somebody tries again in a minute. */
export async function putOff(runner: Runner, name: string): Promise<void> {
  await runner.run(putOffChore, [name]);
}
