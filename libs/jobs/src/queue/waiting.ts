import type { JobState } from "../job/state.js";
import { onAbort } from "./abort.js";

// Who waits for the results of one job.

/** What Node's timers can wait for; a longer time is waited for in turns. */
const MAX_TIMER_MS = 2_147_483_647;

/** One call. */
export class Waiter {
  #timer: NodeJS.Timeout | undefined;
  #left: number;
  readonly #unhear: (() => void) | undefined;

  constructor(
    /** Looks that were sent before this number have not been for it. */
    readonly since: number,
    timeoutMs: number,
    signal: AbortSignal | null,
    private readonly calls: {
      resolve: (told: string | null) => void;
      reject: (error: unknown) => void;
      late: () => unknown;
      left: () => void;
    },
  ) {
    this.#left = timeoutMs;
    this.#wait();
    if (signal) this.#unhear = onAbort(signal, () => this.#gone(signal.reason));
  }

  resolve(told: string | null): void {
    this.#forget();
    this.calls.resolve(told);
  }

  reject(error: unknown): void {
    this.#forget();
    this.calls.reject(error);
  }

  #wait(): void {
    const ms = Math.min(this.#left, MAX_TIMER_MS);
    this.#timer = setTimeout(() => {
      this.#left -= ms;
      if (this.#left > 0) this.#wait();
      else this.#gone(this.calls.late());
    }, ms);
  }

  #gone(reason: unknown): void {
    this.calls.left();
    this.reject(reason);
  }

  #forget(): void {
    clearTimeout(this.#timer);
    this.#unhear?.();
  }
}

/** A job that is waited for. */
export class Awaited {
  readonly waiters = new Set<Waiter>();
  /** As it was last seen, unfinished. */
  seen: { kind: string; state: JobState } | undefined;
  /** Its mark could not be set once, since somebody had its row: it was looked at again soon. */
  hurried = false;

  constructor(
    readonly id: string,
    readonly queueId: number,
    readonly number: string,
  ) {}

  get subject(): { id: string; kind: string | null; state: JobState | null } {
    return { id: this.id, kind: this.seen?.kind ?? null, state: this.seen?.state ?? null };
  }

  /** Takes out those for whom a look of this number was. */
  takeSince(look: number): Waiter[] {
    const taken = [...this.waiters].filter(({ since }) => since < look);
    for (const waiter of taken) this.waiters.delete(waiter);
    return taken;
  }
}
