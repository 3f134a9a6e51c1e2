import type pg from "pg";
import type { Definition, InputOf } from "../job/definition.js";
import type { EnqueueOptions } from "../job/enqueue-options.js";
import type { Enqueued } from "../job/enqueued.js";
import type { DeliveredEvent, ScheduledRun } from "../job/headers.js";

/** A logger whose lines carry the job they are about. */
export interface JobLogger {
  log(message: string, params?: object): void;
  warn(message: string, params?: object): void;
  error(message: string, params?: object): void;
  debug(message: string, params?: object): void;
}

/** Whatever runs a function in a transaction of its own: a TypeORM `DataSource`, or what is like it: it resolves when that has committed. */
export interface TransactionSource<M> {
  transaction<T>(run: (manager: M) => Promise<T>): Promise<T>;
}

/** What a handler knows of the attempt that it runs, and what it may do in its name. */
export interface JobContext {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  /**
   * The payload as it was enqueued, before the schema of the definition: for what is asked before the handler runs, such
   * as the strategy of durable providers. Parsed on first use, once an attempt; the handler gets a copy of its own.
   */
  readonly payload: unknown;
  /** The number of this run: grows with every claim, never falls; half of the fence. */
  readonly attempt: number;
  /** Runs that have failed or timed out before this one. */
  readonly failures: number;
  /** How many runs may fail, the first included. */
  readonly attempts: number;
  /** Whether a failure of this run is the last: then the job is dead. */
  readonly isLast: boolean;
  /** The schedule that enqueued it, and the tick it is for, absent for `runNow`; null: a call enqueued it. */
  readonly schedule: ScheduledRun | null;
  /**
   * The event whose publishing made this delivery, and the routing key that came with the payload it has; undefined for
   * other jobs.
   */
  readonly event: DeliveredEvent | undefined;
  /**
   * Aborts at the timeout, at the end of the grace period, when the lease is lost, and when somebody cancels the job;
   * `signal.reason` tells which: JobTimeoutError, ShutdownError, LeaseLostError or JobCancelledError.
   */
  readonly signal: AbortSignal;
  /** The same over all attempts of the job: hand it to services that know idempotency keys. */
  readonly idempotencyKey: string;
  readonly logger: JobLogger;
  /**
   * Says how far this attempt has come. Costs next to nothing, however often it is called: the newest is written once a
   * second and before the job is settled, and stays with the job after its end. It never throws.
   * @param percent 0..100; what lies outside is taken as the nearest of them. With NaN, or what is no number, the call changes nothing.
   * @param note what it is doing, at most 1,000 characters; a longer one is cut. Absent: none.
   */
  progress(percent: number, note?: string): void;
  /**
   * Keeps a line with the job, for people who look at it; written like progress. An attempt keeps 1,000 lines and 64 kB,
   * then a last one that says so. A line longer than 8,000 characters is cut; NUL and lone surrogates become U+FFFD;
   * what is no string is shown as `console.log` would. It never throws.
   */
  log(line: string): void;
  /**
   * Enqueues a job at once, in the name of this attempt.
   * @throws LeaseLostError when the attempt is not the current one any more: nothing was created.
   */
  enqueue<D extends Definition | string>(
    this: void,
    definition: D,
    payload?: D extends string ? unknown : InputOf<D>,
    options?: EnqueueOptions,
  ): Promise<Enqueued>;
  /**
   * Runs `fn` in a transaction, on a connection of ours, that ends with the success of this attempt: what `fn` writes
   * is committed together with it, or not at all. Its value is the result of the job.
   * Once per attempt; what the handler does afterwards changes nothing of the job any more.
   * @throws LeaseLostError when the attempt is not the current one any more; all is rolled back.
   * @throws TransactionEndedError when `fn` has ended the transaction itself; what it has committed stays.
   * @throws TransactionFailedError when a statement in it had failed and `fn` went on, or it was rolled back afterwards.
   * @throws TransactionUsedError when it is called again in the same attempt.
   */
  transaction<T>(this: void, fn: (client: pg.ClientBase) => Promise<T>): Promise<T>;
  /** The same on a connection of a TypeORM DataSource, which must lead to the database that has the jobs. */
  transaction<M, T>(
    this: void,
    source: TransactionSource<NoInfer<M>> & { readonly manager: M },
    fn: (manager: M) => Promise<T>,
  ): Promise<T>;
  /** The same with whatever else has `transaction(run)` and gives `run` something with `query(sql, params)`. */
  transaction<M, T>(
    this: void,
    source: TransactionSource<M>,
    fn: (manager: M) => Promise<T>,
  ): Promise<T>;
}
