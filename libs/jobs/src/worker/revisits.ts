import { monotonic } from "./held.js";
import type { QueueWorker } from "./queue-worker.js";

/**
 * Claims that are made unasked, a little after a queue was found empty: jobs trickle into it, a search goes on, or a
 * hint is not to be followed at once.
 */
export class Revisits {
  readonly #timers = new Map<QueueWorker, { at: number; timer: NodeJS.Timeout }>();

  constructor(private readonly found: (queue: QueueWorker) => void) {}

  /** This queue was claimed from until nothing more was there. */
  emptied(queue: QueueWorker): void {
    const ms = queue.againIn(monotonic());
    if (ms !== undefined) this.in(queue, ms);
  }

  /** In so many ms, or before. */
  in(queue: QueueWorker, ms: number): void {
    const now = monotonic();
    const known = this.#timers.get(queue);
    if (known && known.at <= now + ms) return;
    clearTimeout(known?.timer);
    const timer = setTimeout(() => {
      this.#timers.delete(queue);
      this.found(queue);
    }, ms).unref();
    this.#timers.set(queue, { at: now + ms, timer });
  }

  stop(): void {
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}
