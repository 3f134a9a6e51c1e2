import type { Runner } from "../pg/statement.js";
import { sayAnswered, tellAnswered } from "../store/queues/answered.js";

// Who ends awaited jobs says so to other processes: at once when nothing was said of late, then at most once per 10 ms.

const TRAILING_MS = 10;

export class Answered {
  #unsaid: string[] = [];
  #trailing: NodeJS.Timeout | undefined;

  constructor(
    private readonly runner: Runner,
    private readonly schema: string,
    private readonly enabled: boolean,
  ) {}

  /** These jobs, by their public ids, have ended, and that is committed. */
  say(ids: readonly string[]): void {
    if (!this.enabled) return;
    this.#unsaid.push(...ids);
    if (!this.#trailing) this.#sayNow();
  }

  /** Says what is unsaid, while there is a connection. */
  close(): void {
    clearTimeout(this.#trailing);
    this.#trailing = undefined;
    while (this.#unsaid.length > 0) this.#send();
  }

  #sayNow(): void {
    this.#send();
    this.#trailing = setTimeout(() => {
      this.#trailing = undefined;
      if (this.#unsaid.length > 0) this.#sayNow();
    }, TRAILING_MS).unref();
  }

  #send(): void {
    const { payload, taken } = sayAnswered(this.#unsaid);
    this.#unsaid = this.#unsaid.slice(taken);
    // Losing it costs a poll interval, nothing else.
    tellAnswered(this.runner, this.schema, payload).catch(() => undefined);
  }
}
