import {
  JobResultCancelledError,
  JobResultClosedError,
  JobResultDeadError,
  JobResultNotKeptError,
  JobResultSkippedError,
  JobResultTimeoutError,
  JobResultUnknownError,
} from "../job/result-errors.js";
import { formatJobId, parseJobId } from "../job/job-id.js";
import { whyUnstored } from "../job/stored-result.js";
import type { ParsedResultOptions } from "../job/result-options.js";
import type { Database } from "../pg/database.js";
import { isLockTimeout, isServerUnready, isStatementTimeout } from "../pg/sqlstate.js";
import { hearAnswered } from "../store/queues/answered.js";
import { type Outcome, outcomes } from "../store/reads/outcomes.js";
import { type Store, isOutcomeUnknown, isUnavailable } from "../store/store.js";
import { markAwaited } from "../store/transitions/await.js";
import { Answered } from "./answered.js";
import { callerError } from "./failure.js";
import { type LocalListener, ResultEar } from "./result-ear.js";
import { Awaited, Waiter } from "./waiting.js";

// Waits for jobs to end. However many wait: one statement a second looks at all their jobs, one at a time; a hint has
// those it names looked at in between. Nothing of it is there while nobody waits.

const POLL_MS = 1_000;
const MAX_BATCH = 1_000;
/** Whoever had a job's row when it was to be marked was perhaps just settling it. */
const SOON_MS = 25;
/** A role that may not write, or a standby: whoever waits there is served by the poll. */
const MARK_AGAIN_MS = 10_000;

export class Results {
  readonly #awaited = new Map<string, Awaited>();
  readonly #answered: Answered;
  readonly #ear: ResultEar;
  #due = new Set<Awaited>();
  #looks = 0;
  #running = false;
  #poll: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  readonly #hurried = new Set<Awaited>();
  #marksFrom = Number.NEGATIVE_INFINITY;
  /** Why the last look had no answer. */
  #failure: unknown;
  #closed = false;

  constructor(
    private readonly store: Store,
    database: Database,
    notify: boolean,
    local: LocalListener,
  ) {
    this.#answered = new Answered(store.session, store.schema, notify);
    this.#ear = new ResultEar(database, notify, local, {
      onNotify: (payload) => this.#ended(hearAnswered(payload)),
      // Words may have been missed.
      onConnect: () => this.#lookAt(this.#awaited.values()),
    });
  }

  /** The JSON text of the job's result; null for none. */
  async of(id: string, { timeoutMs, signal }: ParsedResultOptions): Promise<string | null> {
    const { queueId, number } = parseJobId(id);
    signal?.throwIfAborted();
    if (this.#closed) throw new JobResultClosedError({ id, kind: null, state: null });
    let awaited = this.#awaited.get(id);
    if (!awaited) this.#awaited.set(id, (awaited = new Awaited(id, queueId, number)));
    const answer = new Promise<string | null>((resolve, reject) => {
      const waiter = new Waiter(this.#looks, timeoutMs, signal, {
        resolve,
        reject,
        late: () => {
          const cause = this.#failure;
          const options = cause === undefined ? undefined : { cause };
          return new JobResultTimeoutError(awaited.subject, timeoutMs, options);
        },
        left: () => {
          awaited.waiters.delete(waiter);
          this.#rest(awaited);
        },
      });
      awaited.waiters.add(waiter);
    });
    this.#ear.open();
    this.#pollLater();
    this.#lookAt([awaited]);
    return await answer;
  }

  /** Awaited jobs of this queue have ended in this process, and that is committed. */
  answered(queueId: number, numbers: readonly string[]): void {
    const ids = numbers.map((number) => formatJobId(queueId, number));
    this.#ended(ids);
    this.#answered.say(ids);
  }

  /** Whoever still waits is told that nobody does so any more. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const awaited of this.#awaited.values())
      this.#refuse(awaited, Number.POSITIVE_INFINITY, new JobResultClosedError(awaited.subject));
    this.#answered.close();
    await this.#ear.close();
  }

  #ended(ids: readonly string[]): void {
    if (this.#awaited.size === 0) return;
    const here = ids.map((id) => this.#awaited.get(id)).filter((one) => one !== undefined);
    this.#lookAt(here);
  }

  #lookAt(these: Iterable<Awaited>): void {
    for (const awaited of these) this.#due.add(awaited);
    if (this.#running || this.#due.size === 0) return;
    this.#running = true;
    // Calls of the same moment go together.
    setImmediate(() => void this.#run());
  }

  async #run(): Promise<void> {
    while (this.#due.size > 0) {
      const batch = [...this.#due].filter(({ waiters }) => waiters.size > 0);
      this.#due = new Set(batch.slice(MAX_BATCH));
      const part = batch.slice(0, MAX_BATCH);
      if (part.length > 0) await this.#look(part);
    }
    this.#running = false;
  }

  async #look(batch: readonly Awaited[]): Promise<void> {
    const look = ++this.#looks;
    try {
      const archive = await this.store.offers(2);
      const found = new Map(
        (await outcomes(this.store, batch, archive)).map((one) => [
          formatJobId(one.queueId, one.id),
          one,
        ]),
      );
      this.#failure = undefined;
      const unmarked = batch.filter((awaited) => {
        const outcome = found.get(awaited.id);
        this.#tell(awaited, look, outcome);
        return outcome && isUnfinished(outcome) && !outcome.awaited && awaited.waiters.size > 0;
      });
      if (unmarked.length > 0) await this.#mark(unmarked);
    } catch (error) {
      this.#failed(batch, look, error);
    }
  }

  #tell(awaited: Awaited, look: number, outcome: Outcome | undefined): void {
    const { id } = awaited;
    if (!outcome)
      return this.#refuse(
        awaited,
        look,
        awaited.seen ? new JobResultNotKeptError(awaited.subject) : new JobResultUnknownError(id),
      );
    const { kind, state, told } = outcome;
    const subject = { id, kind, state };
    switch (state) {
      case "succeeded": {
        const why = whyUnstored(told);
        if (why !== undefined)
          return this.#refuse(awaited, look, new JobResultNotKeptError(subject, why));
        for (const waiter of awaited.takeSince(look)) waiter.resolve(told);
        return this.#rest(awaited);
      }
      case "skipped": {
        const { reason } = JSON.parse(told ?? "{}") as { reason?: string };
        return this.#refuse(awaited, look, new JobResultSkippedError(subject, reason ?? ""));
      }
      case "cancelled":
        return this.#refuse(awaited, look, new JobResultCancelledError(subject));
      case "dead":
        return this.#refuse(
          awaited,
          look,
          new JobResultDeadError(subject, told === null ? null : JSON.parse(told)),
        );
      default:
        awaited.seen = { kind, state };
    }
  }

  #refuse(awaited: Awaited, look: number, error: unknown): void {
    for (const waiter of awaited.takeSince(look)) waiter.reject(error);
    this.#rest(awaited);
  }

  /** Those who are not marked are seen by the poll, a second later. */
  async #mark(unmarked: readonly Awaited[]): Promise<void> {
    if (performance.now() < this.#marksFrom) return;
    try {
      const marked = await markAwaited(this.store, unmarked);
      const rest = unmarked.filter(({ number, hurried }) => !marked.has(number) && !hurried);
      for (const awaited of rest) awaited.hurried = true;
      if (rest.length > 0) this.#lookSoon(rest);
    } catch {
      this.#marksFrom = performance.now() + MARK_AGAIN_MS;
    }
  }

  #lookSoon(these: readonly Awaited[]): void {
    for (const awaited of these) this.#hurried.add(awaited);
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#lookAt(this.#hurried);
      this.#hurried.clear();
    }, SOON_MS).unref();
  }

  /** What passes is waited for; the rest is told to those who wait. */
  #failed(batch: readonly Awaited[], look: number, error: unknown): void {
    const told = callerError(error, this.store.schema, "read");
    this.#failure = told;
    if (PASSING.some((passes) => passes(error))) return;
    for (const awaited of batch) this.#refuse(awaited, look, told);
  }

  #pollLater(): void {
    if (this.#closed || this.#awaited.size === 0) return;
    this.#poll ??= setTimeout(() => {
      this.#poll = undefined;
      this.#pollLater();
      this.#ear.open();
      this.#lookAt(this.#awaited.values());
    }, POLL_MS);
  }

  /** Nobody waits for this job any more, or for any. */
  #rest(awaited: Awaited): void {
    if (awaited.waiters.size > 0) return;
    if (this.#awaited.get(awaited.id) === awaited) this.#awaited.delete(awaited.id);
    if (this.#awaited.size > 0) return;
    clearTimeout(this.#poll);
    clearTimeout(this.#soon);
    this.#poll = undefined;
    this.#soon = undefined;
    this.#hurried.clear();
    this.#due.clear();
    this.#failure = undefined;
    this.#ear.rest();
  }
}

const PASSING = [
  isUnavailable,
  isOutcomeUnknown,
  isServerUnready,
  isLockTimeout,
  isStatementTimeout,
];

const isUnfinished = ({ state }: Outcome): boolean => state === "queued" || state === "running";
