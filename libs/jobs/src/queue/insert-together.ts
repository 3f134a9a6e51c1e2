import type { Store } from "../store/store.js";
import type { Addressed } from "./call.js";
import { callerError } from "./failure.js";
import { insertAll } from "./insert.js";

const ROWS_PER_STATEMENT = 2_000;

/** Many jobs, or jobs of several queues, all or none; answers in order the ids that hold their keys. */
export async function insertTogether(store: Store, all: readonly Addressed[]): Promise<string[]> {
  const places = inParts(all);
  const parts = places.map((part) => ({
    queueId: all[part[0]!]!.queueId,
    jobs: part.map((place) => all[place]!.job),
  }));
  try {
    await store.number(all.map((one) => one.job));
    const holders = await insertAll(store, parts);
    const ids: string[] = Array.from({ length: all.length });
    places.forEach((part, p) => part.forEach((place, index) => (ids[place] = holders[p]![index]!)));
    return ids;
  } catch (error) {
    throw callerError(error, store.schema, all);
  }
}

/** Places of jobs of one queue; queues in the order of their ids, so that two calls cannot wait for one another. */
function inParts(all: readonly Addressed[]): number[][] {
  const parts: number[][] = [];
  for (const queueId of [...new Set(all.map((one) => one.queueId))].sort((a, b) => a - b)) {
    const places = all.flatMap((one, index) => (one.queueId === queueId ? [index] : []));
    for (let from = 0; from < places.length; from += ROWS_PER_STATEMENT) {
      parts.push(places.slice(from, from + ROWS_PER_STATEMENT));
    }
  }
  return parts;
}
