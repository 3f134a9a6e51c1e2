import { type Runner, Statement } from "../../pg/statement.js";

// A channel of its own: workers do not hear of results, nor those who wait for a result of every job that is due.

/** The channel on which is said which awaited jobs have ended. */
export const answeredChannel = (schema: string): string => `${schema}:ended`.slice(0, 63); // PostgreSQL takes no longer one

/** With a long name of a schema it may be the channel of wake-ups too. */
const MARK = "=";
/** PostgreSQL takes less than 8,000 bytes. */
const MAX_LENGTH = 7_900;

/** As many of these public ids as one payload takes, and how many those are. */
export function sayAnswered(ids: readonly string[]): { payload: string; taken: number } {
  let payload = MARK;
  let taken = 0;
  for (const id of ids) {
    if (payload.length + 1 + id.length > MAX_LENGTH) break;
    payload += `${taken > 0 ? " " : ""}${id}`;
    taken++;
  }
  return { payload, taken };
}

/** The ids; none when it says something else. */
export const hearAnswered = (payload: string): string[] =>
  payload.startsWith(MARK) ? payload.slice(MARK.length).split(" ") : [];

const notifyWaiting = new Statement("tell_answered", () => `select pg_notify($1::text, $2::text)`);

/** A hint that jobs have ended. Losing it costs those who wait for them a poll interval, nothing else. */
export async function tellAnswered(runner: Runner, schema: string, payload: string): Promise<void> {
  await runner.run(notifyWaiting, [answeredChannel(schema), payload]);
}
