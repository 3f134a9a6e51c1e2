import type { Runner } from "../pg/statement.js";
import { whenTransactionEnds } from "../pg/transaction-end.js";
import type { Listener } from "../pg/listener.js";
import type { Word } from "../pg/session.js";
import { type WakeCall, wake, wakeWord } from "../store/queues/wake.js";
import type { DueTime } from "./call.js";
import { Later } from "./later.js";

/** The workers of this process, as the way in sees them. */
export interface Wake {
  /** Whether this process has workers at all. */
  readonly any?: boolean;
  /** Where a worker listens to hints of others, once it does. */
  readonly listener?: Listener | undefined;
  /**
   * Whether a worker of this process has a free slot for this kind: then no other needs the hint, and it says itself
   * when there was more than it could take. `behind`: it is to look from the beginning.
   */
  wake(queueId: number, kind: string, behind: boolean): boolean;
  /** A lane was made: workers read their lanes anew. */
  changed(): void;
}

const TRAILING_MS = 10;
/** Polls are two seconds apart: what is due before the next one is worth a timer. */
const SOON_MS = 2_000;
/** What has been due for longer may lie where claims do not look back to. */
const BEHIND_MS = 900;
/** When to hint at jobs of a transaction of which nobody tells us when it ends. */
const AFTER_MS = [5, 50, 500];

/** The time after a hint, in which there is no other. */
interface Trailing {
  timer: NodeJS.Timeout;
  /** What is to be said at its end. */
  again?: WakeCall;
}

// NOTIFY costs commits, so: at once when the queue was quiet, then at most one per 10 ms.
export class Hints {
  readonly #trailing = new Map<number, Trailing>();
  readonly #later = new Later((queueId, kinds) => {
    for (const kind of kinds) this.hint(queueId, kind);
  });
  /** Of transactions that have not ended. */
  readonly #open = new Set<readonly DueTime[]>();

  constructor(
    private readonly runner: Runner,
    private readonly schema: string,
    private readonly enabled: boolean,
    private readonly local: Wake,
  ) {}

  /** Jobs of this queue and kind can run now. `behind`: they have been due for a while. */
  hint(queueId: number, kind: string, behind = false): void {
    if (!this.local.wake(queueId, kind, behind)) this.tellOthers({ queueId, behind });
  }

  /**
   * The hint that is due when the next statement has put jobs into this queue, to be sent right behind it. None while
   * the queue is not quiet, nor where a worker of this process may take them: {@link hint} is for those.
   */
  ahead(queueId: number): Word | undefined {
    if (!this.enabled || this.local.any === true || this.#trailing.has(queueId)) return undefined;
    return wakeWord(
      this.schema,
      { queueId },
      {
        onSent: () => this.#trail(queueId),
        onLost: () => this.tellOthers({ queueId }),
      },
    );
  }

  /** Other processes shall know. */
  tellOthers(call: WakeCall): void {
    if (!this.enabled) return;
    const { queueId } = call;
    const trailing = this.#trailing.get(queueId);
    if (!trailing) {
      this.#send(call);
      this.#trail(queueId);
    } else if (!trailing.again?.behind) trailing.again = call;
  }

  #trail(queueId: number): void {
    if (this.#trailing.has(queueId)) return;
    const entry: Trailing = {
      timer: setTimeout(() => {
        this.#trailing.delete(queueId);
        // That nobody here could start it was seen then, and for its own kind.
        if (entry.again) this.tellOthers(entry.again);
      }, TRAILING_MS),
    };
    entry.timer.unref();
    this.#trailing.set(queueId, entry);
  }

  /** A job of this queue can run in so many ms; those that come later are seen by the workers' polls. */
  hintIn(queueId: number, kind: string, ms: number): void {
    if (ms <= 0) return this.hint(queueId, kind, ms < -BEHIND_MS);
    if (ms > SOON_MS) return;
    this.#later.add(queueId, kind, ms + 1);
  }

  /** A lane of this queue was made, or what may be claimed of it is another part. */
  changed(queueId: number): void {
    this.local.changed();
    if (this.enabled) this.#send({ queueId, changed: true });
  }

  /** Jobs are due in so many ms, but not before this transaction has committed, which is not ours. */
  hintAfterCommit(tx: object, times: readonly DueTime[]): void {
    const soon = times.filter(({ ms }) => ms <= SOON_MS);
    const calledAt = performance.now();
    const told = whenTransactionEnds(tx, () => {
      // After the end of the app it was said by close().
      if (!this.#open.delete(soon)) return;
      const ago = performance.now() - calledAt;
      for (const { queueId, kind, ms } of soon) this.hintIn(queueId, kind, ms - ago);
    });
    if (told) this.#open.add(soon);
    else
      for (const { queueId, kind, ms } of soon)
        for (const after of AFTER_MS) this.#later.add(queueId, kind, Math.max(after, ms + 1));
  }

  /** Says now what is still to be said: the jobs are there, or may be, and nobody here says it later. */
  close(): void {
    const unsaid = new Map<number, WakeCall>();
    for (const [queueId, { timer, again }] of this.#trailing) {
      clearTimeout(timer);
      if (again) unsaid.set(queueId, again);
    }
    this.#trailing.clear();
    const waiting = [...this.#open].flatMap((times) => times.map(({ queueId }) => queueId));
    this.#open.clear();
    for (const queueId of [...this.#later.clear(), ...waiting])
      if (!unsaid.has(queueId)) unsaid.set(queueId, { queueId });
    if (this.enabled) for (const call of unsaid.values()) this.#send(call);
  }

  #send(call: WakeCall): void {
    // Losing a hint costs a poll interval, nothing else.
    wake(this.runner, this.schema, call).catch(() => undefined);
  }
}
