import type { Runner } from "../pg/statement.js";
import { wake } from "../store/queues/wake.js";

/** How the way in wakes workers; the module connects it to the worker of the same process, if there is one. */
export interface Wake {
  /** Whether a worker of this process has taken the hint: then no other needs it. */
  local(queueId: number): boolean;
}

const TRAILING_MS = 10;
/** When to hint at jobs of a foreign transaction: nobody tells us when it commits. */
const AFTER_MS = [5, 50, 500];

// NOTIFY costs commits, so: at once when the queue was quiet, then at most one per 10 ms.
export class Hints {
  readonly #trailing = new Map<number, { timer: NodeJS.Timeout; again: boolean }>();
  readonly #later = new Set<NodeJS.Timeout>();
  readonly #laterQueues = new Map<number, Map<number, NodeJS.Timeout>>();

  constructor(
    private readonly runner: Runner,
    private readonly schema: string,
    private readonly enabled: boolean,
    private readonly wakePort: Wake,
  ) {}

  /** Jobs of this queue can run now. */
  hint(queueId: number): void {
    if (this.wakePort.local(queueId) || !this.enabled) return;
    const quiet = this.#trailing.get(queueId);
    if (quiet) {
      quiet.again = true;
      return;
    }
    this.#send(queueId);
    const entry = {
      again: false,
      timer: setTimeout(() => {
        this.#trailing.delete(queueId);
        if (entry.again) this.hint(queueId);
      }, TRAILING_MS),
    };
    entry.timer.unref();
    this.#trailing.set(queueId, entry);
  }

  /** Jobs of this queue can run once a transaction that is not ours has committed. */
  hintAfterCommit(queueId: number): void {
    let timers = this.#laterQueues.get(queueId);
    if (!timers) this.#laterQueues.set(queueId, (timers = new Map()));
    for (const ms of AFTER_MS) {
      if (timers.has(ms)) continue;
      const timer = setTimeout(() => {
        timers.delete(ms);
        this.#later.delete(timer);
        this.hint(queueId);
      }, ms).unref();
      timers.set(ms, timer);
      this.#later.add(timer);
    }
  }

  close(): void {
    for (const { timer } of this.#trailing.values()) clearTimeout(timer);
    for (const timer of this.#later) clearTimeout(timer);
    this.#trailing.clear();
    this.#laterQueues.clear();
    this.#later.clear();
  }

  #send(queueId: number): void {
    // Losing a hint costs a poll interval, nothing else.
    wake(this.runner, this.schema, String(queueId)).catch(() => undefined);
  }
}
