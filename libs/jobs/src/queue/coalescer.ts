import { isDataError, isLockTimeout, isTransient } from "../pg/sqlstate.js";
import type { Store } from "../store/store.js";
import type { Holder } from "../store/transitions/enqueue.js";
import type { NewJob } from "../store/transitions/new-jobs.js";
import { dueIn } from "./call.js";
import { callerError } from "./failure.js";
import type { Hints } from "./hints.js";
import { type Call, HeldCalls, type Locked } from "./held-calls.js";
import { type Inserted, insertAll } from "./insert.js";
import { BRIEF_MS, waitedForAll } from "./patience.js";

// Calls that come while a statement is under way go together into the next one. Nobody waits for company:
// an idle connection is used at once. Every call is told after its commit, and is all or nothing.

interface Waiting extends Call {
  resolve: (inserted: Inserted) => void;
  reject: (error: unknown) => void;
}

const MAX_ROWS = 2_000;
const MAX_BYTES = 4_000_000;
const RETRIES = 5;

export class Coalescer {
  #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;
  readonly #held: HeldCalls<Waiting>;

  constructor(
    private readonly store: Store,
    private readonly queueId: number,
    private readonly hints: Hints,
  ) {
    this.#held = new HeldCalls(
      async (calls, lockMs) => await this.#sendParts(calls, lockMs),
      (calls, error) => this.#refuse(calls, error),
    );
  }

  /** Inserts the jobs of one call; resolves after the commit. */
  add(jobs: readonly NewJob[]): Promise<Inserted> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ jobs, resolve, reject });
      // The next turn of the loop: callers that were just answered ask again before it.
      this.#running ??= new Promise<void>((turn) => setImmediate(turn)).then(() => this.#run());
    });
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    for (;;) {
      const busy = this.#running ?? this.#held.busy;
      if (!busy) return;
      await busy;
    }
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#held.without(take(this.#waiting));
      const locked = batch.length > 0 && (await this.#send(batch, BRIEF_MS, RETRIES));
      if (locked) this.#held.add(locked);
    }
    this.#running = undefined;
  }

  /** The same as {@link #send}, of more calls than may go into one statement. */
  async #sendParts(
    calls: readonly Waiting[],
    lockMs: number,
  ): Promise<Locked<Waiting> | undefined> {
    const unsent = [...calls];
    const parts: Waiting[][] = [];
    while (unsent.length > 0) parts.push(take(unsent));
    return await this.#inTurn(parts, lockMs, RETRIES);
  }

  async #inTurn(
    parts: readonly Waiting[][],
    lockMs: number,
    retries: number,
  ): Promise<Locked<Waiting> | undefined> {
    let all: Locked<Waiting> | undefined;
    for (const part of parts) {
      const locked = await this.#send(part, lockMs, retries);
      if (locked) all = { ...locked, calls: [...(all?.calls ?? []), ...locked.calls] };
    }
    return all;
  }

  /** Answers the calls, but for those that have met a lock of a key within `lockMs`. */
  async #send(
    batch: Waiting[],
    lockMs: number,
    retries: number,
  ): Promise<Locked<Waiting> | undefined> {
    const jobs = batch.length === 1 ? batch[0]!.jobs : batch.flatMap((call) => call.jobs);
    try {
      await this.store.number(jobs);
      // With a key it may create nothing.
      const adds = jobs.some((job) => job.key === null && dueIn(job) <= 0);
      const word = adds ? this.hints.ahead(this.queueId) : undefined;
      const [holders] = await insertAll(this.store, [{ queueId: this.queueId, jobs }], {
        word,
        lockMs,
      });
      answer(batch, holders!, word?.sent === true);
    } catch (error) {
      if (isTransient(error) && retries > 0) return await this.#send(batch, lockMs, retries - 1);
      const locked = isLockTimeout(error) && !waitedForAll(error, this.store.session);
      if (locked && jobs.some((job) => job.key !== null)) return { calls: batch, error };
      if (batch.length > 1 && (isDataError(error) || locked)) {
        // One is poisoned, or waits for a stranger's transaction: the others shall not pay for it.
        const calls = batch.map((call) => [call]);
        return await this.#inTurn(calls, lockMs, retries);
      }
      this.#refuse(batch, error);
    }
    return undefined;
  }

  #refuse(batch: readonly Waiting[], error: unknown): void {
    for (const { jobs, reject } of batch) {
      reject(
        callerError(
          error,
          this.store.schema,
          "enqueue",
          jobs.map((job) => ({ queueId: this.queueId, job })),
        ),
      );
    }
  }
}

/** Takes from the front what goes into one statement. */
function take(calls: Waiting[]): Waiting[] {
  let rows = 0;
  let bytes = 0;
  const end = calls.findIndex(({ jobs }, index) => {
    rows += jobs.length;
    for (const job of jobs) bytes += job.payload.length;
    return index > 0 && (rows > MAX_ROWS || bytes > MAX_BYTES);
  });
  return calls.splice(0, end === -1 ? calls.length : end);
}

function answer(batch: readonly Waiting[], holders: readonly Holder[], told: boolean): void {
  if (batch.length === 1) return batch[0]!.resolve({ holders, told });
  let from = 0;
  for (const { jobs, resolve } of batch)
    resolve({ holders: holders.slice(from, (from += jobs.length)), told });
}
