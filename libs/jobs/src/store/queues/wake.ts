import { Word, type WordHooks } from "../../pg/session.js";
import { type Runner, Statement } from "../../pg/statement.js";

/** The channel of a schema's wake-ups; its payloads are queue ids, `*` = all. */
export const wakeChannel = (schema: string): string => `${schema}:wake`.slice(0, 63); // PostgreSQL takes no longer one

// A statement of its own, never in a caller's transaction: NOTIFY serialises the commits of all who use it.
const notifyWorkers = new Statement("wake", () => `select pg_notify($1::text, $2::text)`);

/** A hint that a queue has something to do. Losing it costs a poll interval, nothing else. */
export async function wake(runner: Runner, schema: string, payload: string): Promise<void> {
  await runner.run(notifyWorkers, [wakeChannel(schema), payload]);
}

/** The same, to be sent right behind the statement that gives the queue something to do. */
export const wakeWord = (schema: string, payload: string, hooks: WordHooks): Word =>
  new Word(notifyWorkers, [wakeChannel(schema), payload], hooks);
