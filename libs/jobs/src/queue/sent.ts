import { DatabaseUnavailableError } from "../job/errors.js";
import { StaleLanesError } from "../store/queues/standing.js";
import type { Store } from "../store/store.js";
import { type Addressed, readdress } from "./call.js";
import { callerError } from "./failure.js";

/** The second time goes with what was looked up anew; more are for tables that are exchanged meanwhile. */
const ROUNDS = 5;

/**
 * Sends jobs, and again with their lanes looked up anew when the database has others under their numbers: its
 * schema was made anew, or it was restored. `send` reads queue, lane and id of the jobs when it is called.
 */
export async function sent<T>(
  store: Store,
  all: readonly Addressed[],
  send: () => Promise<T>,
  options: { within?: boolean } = {},
): Promise<T> {
  for (let round = 1; ; round++) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof StaleLanesError)) throw error;
      if (round === ROUNDS) throw exchanged(error);
      await readdress(store, all, options).catch((failed: unknown) => {
        throw callerError(failed, store.schema, "enqueue");
      });
    }
  }
}

const exchanged = (cause: unknown) =>
  new DatabaseUnavailableError(
    "that its queues and lanes are exchanged all the time",
    "No job was created. Repeat the call when it is restored, or migrated.",
    { cause },
  );
