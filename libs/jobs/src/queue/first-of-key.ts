import { EnqueueOutcomeUnknownError } from "../job/errors.js";
import type { Holder } from "../store/transitions/enqueue.js";
import { replaces } from "../store/transitions/enqueue-unique.js";
import type { Addressed } from "./call.js";

// Two equal keys in one call: the first wins, whatever the others ask for. Plain keys have that of their
// statement. Where a window or a replacement is asked for, the others are not sent: they would win.

/** From the answers for what was sent to those for the whole call. */
type Answers = (holders: readonly Holder[]) => readonly Holder[];

/** The jobs of a call that are to be sent. */
export function firstOfEachKey(all: readonly Addressed[]): {
  chosen: readonly Addressed[];
  answers: Answers;
} {
  if (all.length < 2 || !all.some(({ job }) => job.unique))
    return { chosen: all, answers: (holders) => holders };
  const chosen: Addressed[] = [];
  const places = new Map<string, number>();
  const placeOf = all.map((one) => {
    const { kind, key } = one.job;
    const name = `${one.queueId} ${kind}\n${key}`;
    const known = key === null ? undefined : places.get(name);
    if (known !== undefined) return known;
    places.set(name, chosen.length);
    return chosen.push(one) - 1;
  });
  return {
    chosen,
    answers: (holders) =>
      all.map(({ job }, index) => {
        const place = placeOf[index]!;
        const holder = holders[place]!;
        if (chosen[place]!.job === job) return holder;
        return replaces(job) ? { id: holder.id, replaced: false } : { id: holder.id };
      }),
  };
}

/** An unknown outcome carries an id for each item of the call, not only for what was sent. */
export const inInputOrder =
  (answers: Answers) =>
  (error: unknown): never => {
    if (!(error instanceof EnqueueOutcomeUnknownError)) throw error;
    const ids = answers(error.ids.map((id) => ({ id }))).map(({ id }) => id);
    throw new EnqueueOutcomeUnknownError(ids, { cause: error.cause });
  };
