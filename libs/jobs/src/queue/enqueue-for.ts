import type { Definition } from "../job/definition.js";
import type { EnqueueOptions } from "../job/enqueue-options.js";
import { LeaseLostError } from "../job/errors.js";
import { formatJobId } from "../job/job-id.js";
import type { Store } from "../store/store.js";
import { type ParentAttempt, enqueueFenced } from "../store/transitions/enqueue-fenced.js";
import { findHolder } from "../store/transitions/enqueue.js";
import { address } from "./call.js";
import { callerError } from "./failure.js";
import type { Hints } from "./hints.js";

/**
 * Enqueues in the name of a running attempt, in one fenced statement.
 * @throws LeaseLostError when that attempt is not the current one any more.
 */
export async function enqueueFor(
  { store, hints, payloadLimit }: { store: Store; hints: Hints; payloadLimit: number },
  parent: ParentAttempt,
  definition: Definition | string,
  payload: unknown,
  options: EnqueueOptions | undefined,
  onLost: () => void,
): Promise<{ id: string; deduplicated: boolean }> {
  try {
    const { queueId, job } = await address(store, payloadLimit, definition, payload, options);
    await store.number([job]);
    for (;;) {
      const answer = await enqueueFenced(store, parent, queueId, job);
      if (answer === "lost") {
        onLost();
        throw new LeaseLostError(formatJobId(parent.queueId, parent.id), parent.attempt);
      }
      if (answer === "inserted") {
        if (job.at === null) hints.hintIn(queueId, job.kind, job.delayMs);
        return { id: formatJobId(queueId, job.id), deduplicated: false };
      }
      const holder = await findHolder(store, queueId, job.kind, job.key!);
      if (holder !== undefined) return { id: formatJobId(queueId, holder), deduplicated: true };
    }
  } catch (error) {
    throw callerError(error, store.schema);
  }
}
