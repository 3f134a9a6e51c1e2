import { isDataError, isLockTimeout, isTransient } from "../pg/sqlstate.js";
import type { Store } from "../store/store.js";
import type { Holder } from "../store/transitions/enqueue.js";
import type { NewJob } from "../store/transitions/new-jobs.js";
import { dueIn } from "./call.js";
import { callerError } from "./failure.js";
import type { Hints } from "./hints.js";
import { type Inserted, insertAll } from "./insert.js";

// Calls that come while a statement is under way go together into the next one. Nobody waits for company:
// an idle connection is used at once. Every call is told after its commit, and is all or nothing.

interface Waiting {
  jobs: readonly NewJob[];
  resolve: (inserted: Inserted) => void;
  reject: (error: unknown) => void;
}

const MAX_ROWS = 2_000;
const MAX_BYTES = 4_000_000;
const RETRIES = 5;

export class Coalescer {
  #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;

  constructor(
    private readonly store: Store,
    private readonly queueId: number,
    private readonly hints: Hints,
  ) {}

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
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) await this.#send(this.#take(), RETRIES);
    this.#running = undefined;
  }

  #take(): Waiting[] {
    let rows = 0;
    let bytes = 0;
    const end = this.#waiting.findIndex(({ jobs }, index) => {
      rows += jobs.length;
      for (const job of jobs) bytes += job.payload.length;
      return index > 0 && (rows > MAX_ROWS || bytes > MAX_BYTES);
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }

  async #send(batch: Waiting[], retries: number): Promise<void> {
    const jobs = batch.length === 1 ? batch[0]!.jobs : batch.flatMap((call) => call.jobs);
    try {
      await this.store.number(jobs);
      // With a key it may create nothing.
      const adds = jobs.some((job) => job.key === null && dueIn(job) <= 0);
      const word = adds ? this.hints.ahead(this.queueId) : undefined;
      const [holders] = await insertAll(this.store, [{ queueId: this.queueId, jobs }], word);
      answer(batch, holders!, word?.sent === true);
    } catch (error) {
      if (isTransient(error) && retries > 0) await this.#send(batch, retries - 1);
      else if (batch.length > 1 && (isDataError(error) || isLockTimeout(error))) {
        // One is poisoned, or waits for a stranger's transaction: the others shall not pay for it.
        for (const call of batch) await this.#send([call], retries);
      } else this.#refuse(batch, error);
    }
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

function answer(batch: readonly Waiting[], holders: readonly Holder[], told: boolean): void {
  if (batch.length === 1) return batch[0]!.resolve({ holders, told });
  let from = 0;
  for (const { jobs, resolve } of batch)
    resolve({ holders: holders.slice(from, (from += jobs.length)), told });
}
