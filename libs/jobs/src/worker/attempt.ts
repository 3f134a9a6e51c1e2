import type { Definition } from "../job/definition.js";
import type { EnqueueOptions } from "../job/enqueue-options.js";
import type { Enqueued } from "../job/enqueued.js";
import { JobCancelledError, JobTimeoutError, TransactionUsedError } from "../job/errors.js";
import { type DeliveredEvent, type ScheduledRun, eventIn, scheduleIn } from "../job/headers.js";
import { formatJobId } from "../job/job-id.js";
import { type Result, isVerdict } from "../job/verdict.js";
import type { Handler } from "../handler/handler.js";
import { invoke } from "../handler/invoke.js";
import type { JobContext, JobLogger, TransactionSource } from "../handler/job-context.js";
import type { Claim } from "../store/transitions/claim.js";
import { Timed } from "./deadlines.js";
import { monotonic } from "./held.js";
import type { QueueWorker } from "./queue-worker.js";
import { Report } from "./report.js";

/** What an attempt may ask of the world outside the worker. */
export interface AttemptPorts {
  logger(attempt: Attempt): JobLogger;
  enqueue(
    attempt: Attempt,
    definition: Definition | string,
    payload: unknown,
    options: EnqueueOptions | undefined,
  ): Promise<Enqueued>;
  transaction(
    attempt: Attempt,
    source: TransactionSource<never> | undefined,
    fn: (tx: never) => Promise<unknown>,
  ): Promise<unknown>;
  /** It has said something of itself that is to be written. */
  reported(attempt: Attempt & { report: Report }): void;
}

/** waiting for a slot → running → ended (its settle is under way) → over */
export type AttemptPhase = "waiting" | "running" | "ended" | "over";

interface OwnTransaction {
  readonly work: Promise<unknown>;
  open: boolean;
  failure?: unknown;
}

/** One run of one job, from its claim until it is settled or lost; handlers see it as their {@link JobContext}. */
export class Attempt extends Timed implements JobContext {
  phase: AttemptPhase = "waiting";
  /** The queue of this process that holds it, or has held it. */
  heldBy!: QueueWorker;
  /** Somebody else owns the job now: nothing that it writes counts. */
  lost = false;
  /** Where its lease stands in the shared memory. */
  slot = -1;
  /** Where it stands among the bodies that run; -1: its own does not. */
  bodyAt = -1;
  /** It overran its timeout. */
  overdue = false;
  /** Its cancel was requested. */
  cancelled = false;
  /** Its own transaction is settling it. */
  settling = false;
  /** Its own transaction has settled it; the body may still run. */
  committed = false;
  startedAt = 0;
  readonly id: string;
  /** What it has said of itself; made on first use. */
  report: Report | undefined;
  #controller: AbortController | undefined;
  #aborted: { reason: unknown } | undefined;
  #logger: JobLogger | undefined;
  #payload: { readonly value: unknown } | undefined;
  #transaction: OwnTransaction | undefined;

  constructor(
    /** Replaced when the same process is handed the same job again. */
    public claim: Claim,
    readonly handler: Handler,
    readonly queue: string,
    private readonly ports: AttemptPorts,
  ) {
    super();
    this.id = formatJobId(claim.queueId, claim.id);
  }

  get kind(): string {
    return this.claim.kind;
  }
  get attempt(): number {
    return this.claim.attempt;
  }
  get failures(): number {
    return this.claim.failures;
  }
  get attempts(): number {
    return this.claim.attempts ?? this.handler.policy.attempts;
  }
  get isLast(): boolean {
    return this.failures + 1 >= this.attempts;
  }
  get timeoutMs(): number {
    return this.claim.timeoutMs ?? this.handler.policy.timeoutMs;
  }
  get idempotencyKey(): string {
    return this.id;
  }

  get schedule(): ScheduledRun | null {
    return scheduleIn(this.claim.headers);
  }
  get event(): DeliveredEvent | undefined {
    return eventIn(this.claim.headers);
  }

  /** Made on first use: most handlers never look at it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted && !this.#controller.signal.aborted)
      this.#controller.abort(this.#aborted.reason);
    return this.#controller.signal;
  }

  /** Parsed on first use, apart from what the handler gets: that one may change it. */
  get payload(): unknown {
    this.#payload ??= { value: JSON.parse(this.claim.payload) as unknown };
    return this.#payload.value;
  }

  get logger(): JobLogger {
    this.#logger ??= this.ports.logger(this);
    return this.#logger;
  }

  // Getters, so that `const { enqueue } = job` works too, and no job pays for it that does not use them.
  get enqueue(): JobContext["enqueue"] {
    return async (definition, payload, options) =>
      await this.ports.enqueue(this, definition, payload, options);
  }

  get transaction(): JobContext["transaction"] {
    return <T>(first: unknown, second?: (tx: never) => Promise<unknown>): Promise<T> =>
      this.#transact<T>(first, second);
  }

  #transact<T>(first: unknown, second?: (tx: never) => Promise<unknown>): Promise<T> {
    if (this.#transaction)
      return Promise.reject(
        new TransactionUsedError(this.id, { cause: this.#transaction.failure }),
      );
    const work = second
      ? this.ports.transaction(this, Object(first) as TransactionSource<never>, second)
      : this.ports.transaction(this, undefined, first as (tx: never) => Promise<unknown>);
    const transaction: OwnTransaction = { work, open: true };
    this.#transaction = transaction;
    // Nobody may wait for it: a failure is then met at the end of the body.
    work.then(
      () => (transaction.open = false),
      (error: unknown) => {
        transaction.open = false;
        if (!isVerdict(error)) transaction.failure = error;
      },
    );
    return work as Promise<T>;
  }

  progress(percent: number, note?: string): void {
    this.#saying()?.progress(percent, note);
  }

  log(line: string): void {
    this.#saying()?.log(line, monotonic());
  }

  /** Whoever is not the current attempt, or has ended, is not heard. */
  #saying(): Report | undefined {
    if (this.lost || this.phase !== "running") return undefined;
    this.report ??= new Report();
    this.ports.reported(this as this & { report: Report });
    return this.report;
  }

  /** Somebody wants it no more: its signal says so, unless it has aborted for another reason. */
  cancel(): void {
    this.cancelled = true;
    this.abort(new JobCancelledError(this.id));
  }

  /** The first reason stays. */
  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = { reason };
    this.#controller?.abort(reason);
  }

  /**
   * Runs the body; says how it ended in the light of why it was aborted. Never rejects.
   * @param begins is asked right before; when it says no, nothing is run, and nothing is said.
   * @param body what is run; default the handler, with this job alone.
   */
  async run(
    begins: (attempt: Attempt) => boolean,
    body: () => Promise<Result> = () => invoke(this.handler, this.claim.payload, this),
  ): Promise<Result | undefined> {
    // What throws at once would else show the way from our claim to it, and format it at each failure.
    await Promise.resolve();
    if (!begins(this)) return undefined;
    let result = await body();
    if (this.#transaction?.open) {
      // Nobody waited for it; what becomes of it is what becomes of the attempt.
      const ended = await this.#transaction.work.then(
        () => undefined,
        (error: unknown) => ({ error }),
      );
      if (ended && result.type === "returned") result = { type: "threw", error: ended.error };
    }
    if (!this.#aborted || result.type !== "threw" || isVerdict(result.error)) return result;
    // It threw because it was told to stop: the reason counts, not what it made of it.
    const { reason } = this.#aborted;
    // But what it threw stays with a job that is cancelled.
    if (reason instanceof JobCancelledError) return result;
    return reason instanceof JobTimeoutError
      ? { type: "timed-out", error: reason }
      : { type: "aborted" };
  }
}
