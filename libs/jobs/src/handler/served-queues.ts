import { nearest } from "../job/options-check.js";
import type { Handler } from "./handler.js";

/** Handlers whose queue is not among those that are served, one sentence each. */
export function unserved(handlers: readonly Handler[], served: readonly string[]): string[] {
  return handlers
    .filter(({ definition: { queue } }) => !served.includes(queue))
    .map(({ name, definition: { queue } }) => {
      const near = nearest(queue, served);
      const advice = near === undefined ? "" : `did you mean "${near}", which is? If not, `;
      return `${name}: its queue "${queue}" is not served; ${advice}add it to forWorker({ queues: { "${queue}": {} } })`;
    });
}

/**
 * Queues that are served, are no handler's, and read like one that is. No error: a call may send its job to any queue.
 */
export function lookalikes(
  handlers: readonly Handler[],
  served: readonly string[],
): { queue: string; didYouMean: string }[] {
  const meant = [...new Set(handlers.map(({ definition }) => definition.queue))];
  return served
    .filter((queue) => !meant.includes(queue))
    .flatMap((queue) => {
      const didYouMean = nearest(queue, meant);
      return didYouMean === undefined ? [] : [{ queue, didYouMean }];
    });
}
