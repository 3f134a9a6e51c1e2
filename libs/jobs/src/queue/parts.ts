import { byKey } from "../store/transitions/enqueue.js";
import { type Addressed, byQueue } from "./call.js";

// What goes into one statement. PostgreSQL takes no more than 256 MB of jsonb at a time and makes up to six times a
// text of it; Node has no string of 512 MB. A single job goes whatever its size is.

const MAX_ROWS = 2_000;
const MAX_CHARACTERS = 16_000_000;

/** Whether one statement takes them all. */
export function isOnePart(all: readonly Addressed[]): boolean {
  if (all.length > MAX_ROWS) return false;
  const [{ queueId }] = all as [Addressed];
  let characters = 0;
  for (const one of all) {
    characters += one.job.payload.length;
    if (one.queueId !== queueId) return false;
  }
  return characters <= MAX_CHARACTERS || all.length === 1;
}

/**
 * Places in parts of one queue each, small enough for one statement. Keys go in their order over all parts, not
 * only within each: two calls with the same keys must not wait for one another.
 */
export function inParts(all: readonly Addressed[]): number[][] {
  const inOrder = (a: number, b: number) => byKey(all[a]!.job, all[b]!.job) || a - b;
  const keyed = all.some(({ job }) => job.key !== null);
  return byQueue(all).flatMap(({ places }) => cut(all, keyed ? places.toSorted(inOrder) : places));
}

function cut(all: readonly Addressed[], places: readonly number[]): number[][] {
  const parts: number[][] = [];
  let part: number[] = [];
  let characters = 0;
  for (const place of places) {
    const { length } = all[place]!.job.payload;
    if (part.length === 0 || part.length === MAX_ROWS || characters + length > MAX_CHARACTERS) {
      parts.push((part = []));
      characters = 0;
    }
    part.push(place);
    characters += length;
  }
  return parts;
}
