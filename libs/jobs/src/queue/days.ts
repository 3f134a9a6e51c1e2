import { DatabaseUnavailableError } from "../job/errors.js";
import { isCheckViolation, isLockTimeout } from "../pg/sqlstate.js";
import type { Runner } from "../pg/statement.js";
import type { Store } from "../store/store.js";
import { ensurePartitions, missingDay } from "../store/upkeep/partitions.js";

// What is cancelled goes to the partition of its day. The chore that makes them a week ahead may not have run for
// longer than that: no worker has.

/** Does it again when today's partition was missing. */
export async function withPartitions<T>(store: Store, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isCheckViolation(error)) throw error;
    await ensurePartitions(store);
    return await work();
  }
}

/**
 * Looks before a cancel on the caller's transaction, which a failure would abort; a missing day is made on our own
 * connection.
 * @throws DatabaseUnavailableError when it cannot be made; their transaction is as it was.
 */
export async function ensureItsDay(store: Store, theirs: Runner): Promise<void> {
  const day = await missingDay(theirs);
  if (day === undefined) return;
  let cause: unknown;
  try {
    // Not looked for again: until it locks another table, their session may not have heard of it.
    if (day === "today") return void (await ensurePartitions(store));
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    cause = error;
  }
  throw new DatabaseUnavailableError(
    "that finished jobs have no partition for the day on which this transaction began, and that none could be made " +
      "now, because that day is over or another transaction holds their table",
    "The job was not cancelled, and nothing else of the transaction is lost. Start a worker, which makes " +
      "partitions ahead, and repeat the call in a new transaction.",
    { cause },
  );
}
