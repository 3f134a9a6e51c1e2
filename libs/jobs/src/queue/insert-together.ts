import { isTransient } from "../pg/sqlstate.js";
import type { Store } from "../store/store.js";
import type { Holder } from "../store/transitions/enqueue.js";
import type { Addressed } from "./call.js";
import { callerError } from "./failure.js";
import { type Inserted, insertAll } from "./insert.js";
import { inParts } from "./parts.js";
import { patiently } from "./patience.js";

/** So often a deadlock with somebody's transaction, which undid all, is answered by sending all again. */
const RETRIES = 3;

/** Many jobs, or jobs of several queues, all or none. */
export async function insertTogether(
  store: Store,
  all: readonly Addressed[],
  retries = RETRIES,
): Promise<Inserted> {
  const places = inParts(all);
  const parts = places.map((part) => ({
    queueId: all[part[0]!]!.queueId,
    jobs: part.map((place) => all[place]!.job),
  }));
  try {
    const jobs = all.map((one) => one.job);
    await store.number(jobs);
    const holders = await patiently(store.session, jobs, (lockMs) =>
      insertAll(store, parts, { lockMs }),
    );
    const found: Holder[] = Array.from({ length: all.length });
    places.forEach((part, p) =>
      part.forEach((place, index) => (found[place] = holders[p]![index]!)),
    );
    return { holders: found, told: false };
  } catch (error) {
    if (isTransient(error) && retries > 0) return await insertTogether(store, all, retries - 1);
    throw callerError(error, store.schema, "enqueue", all);
  }
}
