import type { BulkAction } from "../job/bulk-order.js";
import { JobLockedError } from "../job/errors.js";
import { parseJobId } from "../job/job-id.js";
import { OptionsCheck, readable } from "../job/options-check.js";
import type { Events } from "../observe/events.js";
import { isRowLocked } from "../pg/sqlstate.js";
import type { Runner } from "../pg/statement.js";
import { whenTransactionEnds } from "../pg/transaction-end.js";
import { get } from "../store/reads/job.js";
import type { Store } from "../store/store.js";
import {
  type CancelAnswer,
  type Cancelled,
  JobMovesError,
  cancel,
} from "../store/transitions/cancel.js";
import { type DeleteAnswer, deleteById } from "../store/transitions/delete.js";
import { type RequeueAnswer, requeue } from "../store/transitions/requeue.js";
import { CONTROL_SINCE } from "../store/workers/control.js";
import { payloadText } from "./call.js";
import type { ControlHints } from "./control-hints.js";
import { ensureItsDay, withPartitions } from "./days.js";
import { type Doing, callerError } from "./failure.js";
import type { Hints } from "./hints.js";
import type { Results } from "./results.js";
import { type TransactionLike, afterCommit } from "./transaction.js";

// What a caller may do with one job by its id. The statement decides; here is said who is told of it.

/** What came of it, and whom to tell once it is committed. */
export interface Done<A extends string = string> {
  answer: A;
  tell: () => void;
}

export class OneJob {
  constructor(
    private readonly store: Store,
    private readonly hints: Hints,
    private readonly events: Events,
    private readonly payloadLimit: number,
    private readonly control: ControlHints,
    private readonly results: Results,
  ) {}

  async cancel(id: string): Promise<CancelAnswer> {
    return await this.#alone(id, "cancel", () => this.#cancelOn(this.store, id));
  }

  /** In the caller's transaction. */
  async cancelWithin(
    tx: TransactionLike,
    runner: Runner,
    id: string,
    onTheirs: <T>(work: () => Promise<T>) => Promise<T>,
  ): Promise<CancelAnswer> {
    const { queueId, number } = parseJobId(id);
    const options = await this.#waysToCancel();
    const cancelled = await this.#changing(id, "cancel", () =>
      onTheirs(async () => {
        await ensureItsDay(this.store, runner);
        return await cancel(runner, queueId, number, options);
      }),
    );
    const tellWorker = () => this.#tellWorker(cancelled);
    const told = afterCommit(tx, (inDoubt) => {
      tellWorker();
      if (inDoubt) void this.#tellIfCancelled(id, cancelled).catch(() => undefined);
      else this.#tellCancelled(id, cancelled);
    });
    // Of another client's end nobody tells us: its worker reads often enough.
    if (!told) whenTransactionEnds(tx, tellWorker);
    return cancelled.answer;
  }

  async requeue(id: string, options: { payload?: unknown }): Promise<RequeueAnswer> {
    const replacement = readable("options of requeue", () => {
      parseJobId(id);
      const check = new OptionsCheck("options of requeue");
      check.object("", options, ["payload"]);
      check.done();
      return options.payload;
    });
    const payload =
      replacement === undefined ? null : payloadText(id, replacement, this.payloadLimit);
    return await this.#alone(id, "requeue", () => this.#requeueOn(this.store, id, payload));
  }

  async delete(id: string): Promise<DeleteAnswer> {
    return await this.#alone(id, "delete", async () => {
      await this.store.needs(2, "delete");
      return await this.#deleteOn(this.store, id);
    });
  }

  /** In one of our transactions; nobody is told before `tell()`. */
  async on(runner: Runner, action: BulkAction, id: string): Promise<Done> {
    switch (action) {
      case "requeue":
        return await this.#requeueOn(runner, id, null);
      case "cancel":
        return await this.#cancelOn(runner, id);
      case "delete":
        return await this.#deleteOn(runner, id);
    }
  }

  /** Says what is still to be said. */
  close(): void {
    this.control.close();
  }

  async #alone<A extends string>(
    id: string,
    doing: Doing,
    work: () => Promise<Done<A>>,
  ): Promise<A> {
    const { answer, tell } = await this.#changing(id, doing, () =>
      withPartitions(this.store, work),
    );
    tell();
    return answer;
  }

  async #requeueOn(
    runner: Runner,
    id: string,
    payload: string | null,
  ): Promise<Done<RequeueAnswer>> {
    const { queueId, number } = parseJobId(id);
    const history = await this.store.offers(2);
    const { answer, kind, queue } = await requeue(runner, queueId, number, payload, { history });
    const tell = () => {
      if (answer !== "queued") return;
      this.hints.hint(queueId, kind);
      if (this.events.heard("requeued")) this.events.emit({ event: "requeued", id, kind, queue });
    };
    return { answer, tell };
  }

  async #cancelOn(runner: Runner, id: string): Promise<Done<CancelAnswer>> {
    const { queueId, number } = parseJobId(id);
    const cancelled = await cancel(runner, queueId, number, await this.#waysToCancel());
    const tell = () => {
      this.#tellWorker(cancelled);
      this.#tellCancelled(id, cancelled);
    };
    return { answer: cancelled.answer, tell };
  }

  async #deleteOn(runner: Runner, id: string): Promise<Done<DeleteAnswer>> {
    const { queueId, number } = parseJobId(id);
    const { answer, kind, queue, awaited } = await deleteById(runner, queueId, number);
    const tell = () => {
      if (awaited) this.results.answered(queueId, [number]);
      if (answer === "deleted" && this.events.heard("deleted"))
        this.events.emit({ event: "deleted", id, kind, queue });
    };
    return { answer, tell };
  }

  async #tellIfCancelled(id: string, cancelled: Cancelled): Promise<void> {
    if (!this.events.heard("cancelled")) return;
    const { queueId, number } = parseJobId(id);
    const job = await get(this.store, queueId, number, false);
    if (job?.state === "cancelled") this.#tellCancelled(id, cancelled);
  }

  async #waysToCancel(): Promise<{ control: boolean }> {
    return await this.#checked("cancel", async () => {
      await this.store.needs(2, "cancel");
      return { control: await this.store.offers(CONTROL_SINCE) };
    });
  }

  #tellWorker({ worker }: Cancelled): void {
    if (worker !== null) this.control.tell(worker);
  }

  #tellCancelled(id: string, { now, kind, queue, awaited }: Cancelled): void {
    if (awaited) {
      const { queueId, number } = parseJobId(id);
      this.results.answered(queueId, [number]);
    }
    if (now && this.events.heard("cancelled"))
      this.events.emit({ event: "cancelled", id, kind, queue });
  }

  async #changing<T>(id: string, doing: Doing, work: () => Promise<T>): Promise<T> {
    return await this.#checked(doing, async () => {
      try {
        return await work();
      } catch (error) {
        if (isRowLocked(error) || error instanceof JobMovesError)
          throw new JobLockedError(id, { cause: error });
        throw error;
      }
    });
  }

  async #checked<T>(doing: Doing, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, doing);
    }
  }
}
