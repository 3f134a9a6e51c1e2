import type { Definition } from "../job/definition.js";
import type { EnqueueOptions } from "../job/enqueue-options.js";
import type { Enqueued } from "../job/enqueued.js";
import { LeaseLostError } from "../job/errors.js";
import { formatJobId } from "../job/job-id.js";
import { type Store, isOutcomeUnknown } from "../store/store.js";
import { type ParentAttempt, enqueueFenced } from "../store/transitions/enqueue-fenced.js";
import { enqueueUniqueFenced } from "../store/transitions/enqueue-unique.js";
import {
  type Holder,
  IdTakenError,
  MAX_ROUNDS,
  existing,
  findHolder,
} from "../store/transitions/enqueue.js";
import { type Addressed, address, answerFor, dueIn } from "./call.js";
import { callerError } from "./failure.js";
import type { Hints } from "./hints.js";
import { again } from "./insert.js";
import { patiently } from "./patience.js";
import { sent } from "./sent.js";

/**
 * Enqueues in the name of a running attempt, in one fenced statement.
 * @throws LeaseLostError when that attempt is not the current one any more.
 */
export async function enqueueFor(
  { store, hints, payloadLimit }: { store: Store; hints: Hints; payloadLimit: number },
  /** It is replaced when the process is handed the same run again. */
  current: () => ParentAttempt,
  definition: Definition | string,
  payload: unknown,
  options: EnqueueOptions | undefined,
  onLost: () => void,
): Promise<Enqueued> {
  const meant: Addressed[] = [];
  try {
    const one = await address(store, payloadLimit, definition, payload, options);
    const { job } = one;
    meant.push(one);
    for (let round = 1; ; round++) {
      const parent = current();
      const answer = await sent(store, [one], async () => {
        await store.number([job]);
        return await patiently(store.session, [job], (lockMs) =>
          insertOnce(store, parent, one, lockMs),
        );
      });
      if (answer === "lost") {
        if (current() !== parent && round < MAX_ROUNDS) continue;
        onLost();
        throw new LeaseLostError(formatJobId(parent.queueId, parent.id), parent.attempt);
      }
      if (answer !== "refused") {
        const told = answerFor(one, answer);
        if (!told.deduplicated || told.replaced) hints.hintIn(one.queueId, job.kind, dueIn(job));
        return told;
      }
      if (job.key === null || round === MAX_ROUNDS) throw new IdTakenError(job.id);
      const holder = await findHolder(store, one.queueId, job.kind, job.key);
      if (holder !== undefined) return answerFor(one, { id: holder });
    }
  } catch (error) {
    throw callerError(error, store.schema, "enqueue", meant);
  }
}

/** Once, whatever happens to the connection. */
async function insertOnce(
  store: Store,
  parent: ParentAttempt,
  { queueId, job }: Addressed,
  within?: number,
): Promise<Holder | "refused" | "lost"> {
  const insert = async (lockMs?: number) => {
    if (job.unique) return await enqueueUniqueFenced(store, parent, queueId, job, lockMs);
    const answer = await enqueueFenced(store, parent, queueId, job, lockMs);
    return answer === "inserted" ? job : answer;
  };
  try {
    return await insert(within);
  } catch (error) {
    if (!isOutcomeUnknown(error)) throw error;
    return await again(store, error, async () => {
      const there = await existing(store, queueId, [job.id]);
      return there.size > 0 ? job : await insert();
    });
  }
}
