import { isLockTimeout, isMissingSchema, sqlState } from "../pg/sqlstate.js";
import { SchemaOutdatedError, type Store } from "../store/store.js";
import { rollUp } from "../store/upkeep/deltas.js";
import { archiveDead, pruneDeadLetters, queuesWithAges } from "../store/upkeep/dead-letters.js";
import { type PastDay, dropDay, pastDays } from "../store/upkeep/partitions.js";
import { forgetWorkers, keptFinished } from "../store/workers/workers.js";

// What is finished goes: by the day, and dead letters by their age. In small steps on the connection that enqueues:
// what one of them waits for, a caller of this process waits for.

export interface Retention {
  /** How long this process was told to keep what is finished. */
  keepFinishedMs: number;
  warn(message: string, params: object): void;
}

const ATTEMPTS = 5;
/** Of batches of one queue; the rest comes with the next turn. */
const MAX_BATCHES = 200;

/** Does all of it, whatever part fails; rejects with what failed. */
export async function retain(store: Store, retention: Retention): Promise<void> {
  const problems: Error[] = [];
  const keepMs = await longest(store, retention);
  const duties = [
    () => dropDays(store, keepMs),
    () => sweepLetters(store),
    () => forgetWorkers(store, keepMs),
  ];
  for (const duty of duties) await duty().catch((error: unknown) => problems.push(error as Error));
  if (problems.length === 0) return;
  // Without their tables all of them fail for that one reason.
  throw (
    problems.find((one) => isMissingSchema(one) || one instanceof SchemaOutdatedError) ??
    new Error(problems.map(({ message }) => message).join("; "))
  );
}

/** Nobody loses what he wanted kept: the longest time that any worker was told of late holds. */
async function longest(store: Store, retention: Retention): Promise<number> {
  const { keepFinishedMs } = retention;
  const { longestMs, live } = await keptFinished(store);
  const keepMs = Math.max(longestMs, keepFinishedMs);
  if (live.some((ms) => ms !== keepFinishedMs))
    retention.warn(
      "Workers were told to keep finished jobs for different times; the longest holds",
      {
        keepFinishedMs: [...new Set([...live, keepFinishedMs])].sort((a, b) => a - b),
        holds: keepMs,
      },
    );
  return keepMs;
}

async function dropDays(store: Store, keepMs: number): Promise<void> {
  const days = await pastDays(store, keepMs);
  if (days.length === 0) return;
  // The counts of those days move with them.
  await rollUp(store);
  const problems: string[] = [];
  // Whoever uses one day of a table uses them all; what else is wrong may be so with one day alone.
  const inUse = new Set<string>();
  for (const day of days) {
    if (inUse.has(day.parent)) continue;
    try {
      await drop(store, day);
    } catch (error) {
      if (!isSqlError(error)) throw error;
      problems.push(error.message);
      if (error instanceof InUseError) inUse.add(day.parent);
    }
  }
  if (problems.length > 0) throw new Error(problems.join("; "));
}

class InUseError extends Error {}

const isSqlError = (error: unknown): error is Error =>
  error instanceof InUseError || sqlState(error) !== undefined;

async function drop(store: Store, day: PastDay): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      // It may have been left half-detached.
      const [now] = attempt === 1 ? [day] : (await pastDays(store, 0)).filter(named(day));
      if (now) await dropDay(store.session, now);
      return;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      if (attempt === ATTEMPTS)
        throw new InUseError(
          `${day.name} cannot be dropped: a transaction that goes on is using it`,
          { cause: error },
        );
      await new Promise((resolve) => setTimeout(resolve, 100 * attempt));
    }
  }
}

const named =
  ({ name }: PastDay) =>
  (one: PastDay) =>
    one.name === name;

async function sweepLetters(store: Store): Promise<void> {
  for (const queueId of await queuesWithAges(store)) {
    for (const step of [pruneDeadLetters, archiveDead]) {
      let batches = 0;
      while ((await step(store, queueId)) && ++batches < MAX_BATCHES);
    }
  }
}
