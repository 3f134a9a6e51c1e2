import { Word, type WordHooks } from "../../pg/session.js";
import { type Runner, Statement } from "../../pg/statement.js";

/** The channel of a schema's wake-ups; {@link sayWake} makes its payloads. */
export const wakeChannel = (schema: string): string => `${schema}:wake`.slice(0, 63); // PostgreSQL takes no longer one

/** What workers are told of a queue. */
export interface WakeCall {
  queueId: number;
  /** Its lanes or its version are others: what is cached is to be read anew. */
  changed?: boolean;
  /** What can run may lie behind the place from which claims look: they are to look from the beginning. */
  behind?: boolean;
}

export const sayWake = ({ queueId, changed = false, behind = false }: WakeCall): string =>
  `${queueId}${changed ? "!" : behind ? "<" : ""}`;

/** A release that does not know a mark takes it for no queue's, and polls. */
export function hearWake(payload: string): Required<WakeCall> {
  const mark = payload.at(-1);
  return { queueId: Number.parseInt(payload, 10), changed: mark === "!", behind: mark === "<" };
}

/** Workers that are to read what they are told; no queue's for a release that does not know it. */
const CONTROL = "control";

const sayControl = (workers: readonly number[] | "any"): string =>
  workers === "any" ? CONTROL : `${CONTROL} ${workers.join(",")}`;

/** The ids of the workers that are meant; undefined: it is said of a queue. */
export function hearControl(payload: string): number[] | "any" | undefined {
  if (!payload.startsWith(CONTROL)) return undefined;
  const ids = payload.slice(CONTROL.length + 1);
  return ids === "" ? "any" : ids.split(",").map(Number);
}

// A statement of its own, never in a caller's transaction: NOTIFY serialises the commits of all who use it.
const notifyWorkers = new Statement("wake", () => `select pg_notify($1::text, $2::text)`);

/** A hint that a queue has something to do. Losing it costs a poll interval, nothing else. */
export async function wake(runner: Runner, schema: string, call: WakeCall): Promise<void> {
  await runner.run(notifyWorkers, [wakeChannel(schema), sayWake(call)]);
}

/** The same, to be sent right behind the statement that gives the queue something to do. */
export const wakeWord = (schema: string, call: WakeCall, hooks: WordHooks): Word =>
  new Word(notifyWorkers, [wakeChannel(schema), sayWake(call)], hooks);

/** A hint that these workers have something to read. Losing it costs a second. */
export async function tellControl(
  runner: Runner,
  schema: string,
  workers: readonly number[] | "any",
): Promise<void> {
  await runner.run(notifyWorkers, [wakeChannel(schema), sayControl(workers)]);
}
