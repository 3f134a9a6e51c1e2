import type { Runner } from "../pg/statement.js";
import type { Word } from "../pg/session.js";
import { wake, wakeWord } from "../store/queues/wake.js";
import { Later } from "./later.js";

/** The workers of this process, as the way in sees them. */
export interface Wake {
  /** Whether this process has workers at all. */
  readonly any?: boolean;
  /** Whether a worker of this process has a free slot for this kind: then no other needs the hint. */
  wake(queueId: number, kind: string): boolean;
  /** A lane was made: workers read their lanes anew. */
  changed(): void;
}

const TRAILING_MS = 10;
/** Polls are two seconds apart: what is due before the next one is worth a timer. */
const SOON_MS = 2_000;
/** When to hint at jobs of a foreign transaction: nobody tells us when it commits. */
const AFTER_MS = [5, 50, 500];

// NOTIFY costs commits, so: at once when the queue was quiet, then at most one per 10 ms.
export class Hints {
  readonly #trailing = new Map<number, { timer: NodeJS.Timeout; again: boolean }>();
  readonly #later = new Later((queueId, kinds) => {
    for (const kind of kinds) this.hint(queueId, kind);
  });

  constructor(
    private readonly runner: Runner,
    private readonly schema: string,
    private readonly enabled: boolean,
    private readonly local: Wake,
  ) {}

  /** Jobs of this queue and kind can run now. */
  hint(queueId: number, kind: string): void {
    if (this.local.wake(queueId, kind) || !this.enabled) return;
    this.#tellOthers(queueId);
  }

  /**
   * The hint that is due when the next statement has put jobs into this queue, to be sent right behind it. None while
   * the queue is not quiet, nor where a worker of this process may take them: {@link hint} is for those.
   */
  ahead(queueId: number): Word | undefined {
    if (!this.enabled || this.local.any === true || this.#trailing.has(queueId)) return undefined;
    return wakeWord(this.schema, String(queueId), {
      onSent: () => this.#trail(queueId),
      onLost: () => this.#tellOthers(queueId),
    });
  }

  #tellOthers(queueId: number): void {
    const trailing = this.#trailing.get(queueId);
    if (trailing) {
      trailing.again = true;
      return;
    }
    this.#send(String(queueId));
    this.#trail(queueId);
  }

  #trail(queueId: number): void {
    if (this.#trailing.has(queueId)) return;
    const entry = {
      again: false,
      timer: setTimeout(() => {
        this.#trailing.delete(queueId);
        // That nobody here could start it was seen then, and for its own kind.
        if (entry.again) this.#tellOthers(queueId);
      }, TRAILING_MS),
    };
    entry.timer.unref();
    this.#trailing.set(queueId, entry);
  }

  /** A job of this queue can run in so many ms; those that come later are seen by the workers' polls. */
  hintIn(queueId: number, kind: string, ms: number): void {
    if (ms <= 0) return this.hint(queueId, kind);
    if (ms > SOON_MS) return;
    this.#later.add(queueId, kind, ms + 1);
  }

  /** A lane of this queue was made. */
  changed(queueId: number): void {
    this.local.changed();
    if (this.enabled) this.#send(`${queueId}!`);
  }

  /** A job of this queue can run in so many ms, but not before a transaction has committed that is not ours. */
  hintAfterCommit(queueId: number, kind: string, ms: number): void {
    if (ms > SOON_MS) return;
    for (const after of AFTER_MS) this.#later.add(queueId, kind, Math.max(after, ms + 1));
  }

  /** Says now what is still to be said: the jobs are there, or may be, and nobody here says it later. */
  close(): void {
    const unsaid = new Set<number>();
    for (const [queueId, { timer, again }] of this.#trailing) {
      clearTimeout(timer);
      if (again) unsaid.add(queueId);
    }
    this.#trailing.clear();
    for (const queueId of this.#later.clear()) unsaid.add(queueId);
    if (this.enabled) for (const queueId of unsaid) this.#send(String(queueId));
  }

  #send(payload: string): void {
    // Losing a hint costs a poll interval, nothing else.
    wake(this.runner, this.schema, payload).catch(() => undefined);
  }
}
