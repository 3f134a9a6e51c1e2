import type { Definition } from "../job/definition.js";
import type { EnqueueOptions } from "../job/enqueue-options.js";
import type { Enqueued } from "../job/enqueued.js";
import { JobTimeoutError } from "../job/errors.js";
import { formatJobId } from "../job/job-id.js";
import { type Result, isVerdict } from "../job/verdict.js";
import type { Handler } from "../handler/handler.js";
import { invoke } from "../handler/invoke.js";
import type { JobContext, JobLogger } from "../handler/job-context.js";
import type { Claim } from "../store/transitions/claim.js";

/** What an attempt may ask of the world outside the worker. */
export interface AttemptPorts {
  logger(attempt: Attempt): JobLogger;
  enqueue(
    attempt: Attempt,
    definition: Definition | string,
    payload: unknown,
    options: EnqueueOptions | undefined,
  ): Promise<Enqueued>;
}

/** waiting for a slot → running → ended (its settle is under way) → over */
export type AttemptPhase = "waiting" | "running" | "ended" | "over";

/** One run of one job, from its claim until it is settled or lost; handlers see it as their {@link JobContext}. */
export class Attempt implements JobContext {
  phase: AttemptPhase = "waiting";
  /** Somebody else owns the job now: nothing that it writes counts. */
  lost = false;
  /** Where its lease stands in the shared memory. */
  slot = -1;
  /** Its settlement was decided before the body ended: it overran its timeout. */
  overdue = false;
  startedAt = 0;
  readonly id: string;
  #controller: AbortController | undefined;
  #aborted: { reason: unknown } | undefined;
  #logger: JobLogger | undefined;

  constructor(
    /** Replaced when the same process is handed the same job again. */
    public claim: Claim,
    readonly handler: Handler,
    readonly queue: string,
    private readonly ports: AttemptPorts,
  ) {
    this.id = formatJobId(claim.queueId, claim.id);
  }

  get kind(): string {
    return this.handler.definition.kind;
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

  /** Made on first use: most handlers never look at it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted && !this.#controller.signal.aborted)
      this.#controller.abort(this.#aborted.reason);
    return this.#controller.signal;
  }

  get logger(): JobLogger {
    this.#logger ??= this.ports.logger(this);
    return this.#logger;
  }

  async enqueue(
    definition: Definition | string,
    payload?: unknown,
    options?: EnqueueOptions,
  ): Promise<Enqueued> {
    return await this.ports.enqueue(this, definition, payload, options);
  }

  /** The first reason stays. */
  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = { reason };
    this.#controller?.abort(reason);
  }

  /** Runs the body; says how it ended in the light of why it was aborted. Never rejects. */
  async run(): Promise<Result> {
    const result = await invoke(this.handler, this.claim.payload, this);
    if (!this.#aborted || result.type !== "threw" || isVerdict(result.error)) return result;
    // It threw because it was told to stop: the reason counts, not what it made of it.
    const { reason } = this.#aborted;
    return reason instanceof JobTimeoutError
      ? { type: "timed-out", error: reason }
      : { type: "aborted" };
  }
}
