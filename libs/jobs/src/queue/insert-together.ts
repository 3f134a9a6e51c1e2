import { isTransient } from "../pg/sqlstate.js";
import type { Store } from "../store/store.js";
import { type Holder, byKey } from "../store/transitions/enqueue.js";
import { type Addressed, byQueue } from "./call.js";
import { callerError } from "./failure.js";
import { insertAll } from "./insert.js";

const ROWS_PER_STATEMENT = 2_000;

/** So often a deadlock with somebody's transaction, which undid all, is answered by sending all again. */
const RETRIES = 3;

/** Many jobs, or jobs of several queues, all or none; answers in order who holds their keys. */
export async function insertTogether(
  store: Store,
  all: readonly Addressed[],
  retries = RETRIES,
): Promise<Holder[]> {
  const places = inParts(all);
  const parts = places.map((part) => ({
    queueId: all[part[0]!]!.queueId,
    jobs: part.map((place) => all[place]!.job),
  }));
  try {
    await store.number(all.map((one) => one.job));
    const holders = await insertAll(store, parts);
    const found: Holder[] = Array.from({ length: all.length });
    places.forEach((part, p) =>
      part.forEach((place, index) => (found[place] = holders[p]![index]!)),
    );
    return found;
  } catch (error) {
    if (isTransient(error) && retries > 0) return await insertTogether(store, all, retries - 1);
    throw callerError(error, store.schema, "enqueue", all);
  }
}

/**
 * Places in parts of one queue each, small enough for one statement. Keys go in their order over all parts, not
 * only within each: two calls with the same keys must not wait for one another.
 */
function inParts(all: readonly Addressed[]): number[][] {
  const inOrder = (a: number, b: number) => byKey(all[a]!.job, all[b]!.job) || a - b;
  return byQueue(all).flatMap(({ places: unsorted }) => {
    const places = all.some(({ job }) => job.key !== null) ? unsorted.toSorted(inOrder) : unsorted;
    return Array.from({ length: Math.ceil(places.length / ROWS_PER_STATEMENT) }, (_, part) =>
      places.slice(part * ROWS_PER_STATEMENT, (part + 1) * ROWS_PER_STATEMENT),
    );
  });
}
