import type { Definition, InputOf, ResultOf } from "../job/definition.js";
import { SchemaNotReadyError } from "../job/errors.js";
import type { EventDefinition, EventInput } from "../job/event-definition.js";
import { parseJobId } from "../job/job-id.js";
import { OptionsCheck, readable } from "../job/options-check.js";
import type { EnqueueOptions } from "../job/enqueue-options.js";
import { type ResultOptions, parseResultOptions } from "../job/result-options.js";
import type { Enqueued } from "../job/enqueued.js";
import type { Events } from "../observe/events.js";
import { isMissingSchema } from "../pg/sqlstate.js";
import type { Runner } from "../pg/statement.js";
import type { SubscriptionView } from "../store/events/subscriptions.js";
import { NEEDED_VERSION } from "../store/migrations/migrate.js";
import { type JobView, get } from "../store/reads/job.js";
import type { Store } from "../store/store.js";
import type { CancelAnswer } from "../store/transitions/cancel.js";
import type { DeleteAnswer } from "../store/transitions/delete.js";
import { type Holder, existing } from "../store/transitions/enqueue.js";
import type { NewJob } from "../store/transitions/new-jobs.js";
import type { RequeueAnswer } from "../store/transitions/requeue.js";
import {
  type Addressed,
  type Item,
  address,
  addressMany,
  answerFor,
  byQueue,
  dueIn,
  dueTimes,
} from "./call.js";
import { Coalescer } from "./coalescer.js";
import { type Doing, atUnfitItem, callerError } from "./failure.js";
import type { Hints } from "./hints.js";
import { firstOfEachKey, inInputOrder } from "./first-of-key.js";
import { insertJobs, wayOf } from "./insert.js";
import { insertTogether } from "./insert-together.js";
import type { OneJob } from "./one-job.js";
import { inParts, isOnePart } from "./parts.js";
import { type Delivery, type PublishOptions, addressEvent, deliveriesOf } from "./publish.js";
import { JobQueues } from "./queues.js";
import type { Results } from "./results.js";
import { JobSchedules } from "./schedules.js";
import { sent } from "./sent.js";
import { subscriptions, unsubscribe } from "./subscriptions.js";
import { type TransactionLike, afterCommit, onCallersTransaction } from "./transaction.js";

// The way in. It checks a call, chooses the job's id and lane, and hands it to the coalescer, or to the
// caller's transaction. It never runs a handler and never decides what the database decides.

/** What {@link JobQueue.in} offers inside a transaction. */
export type TransactionalQueue = Pick<JobQueue, "enqueue" | "enqueueMany" | "publish" | "cancel">;

/** Enqueues jobs, and what a caller may do with one by its id. */
export class JobQueue {
  /** What is enqueued at set times. */
  readonly schedules: JobSchedules;
  /** The queues, to look at and to pause. */
  readonly queues: JobQueues;
  readonly #coalescers = new Map<string, Coalescer>();

  /** @internal Made by `JobsModule.forRoot()`. */
  constructor(
    private readonly store: Store,
    private readonly hints: Hints,
    private readonly events: Events,
    /** The longest payload that is taken, in bytes of its JSON. */
    readonly payloadLimit: number,
    private readonly one: OneJob,
    private readonly results: Results,
  ) {
    this.queues = new JobQueues(store, hints);
    this.schedules = new JobSchedules(store, hints, events, payloadLimit);
  }

  /**
   * Enqueues a job; resolves once it is committed.
   * @throws NotJsonError, PayloadInvalidError, PayloadTooLargeError, NotInEncodingError, OptionsError: nothing was written.
   * @throws DatabaseUnavailableError, DatabaseRefusedError, SchemaNotReadyError, KeyLockedError, LaneLockedError: no job was created.
   * @throws EnqueueOutcomeUnknownError when the connection was lost while committing and stays lost.
   */
  async enqueue<D extends Definition | string>(
    definition: D,
    payload?: D extends string ? unknown : InputOf<D>,
    options?: EnqueueOptions,
  ): Promise<Enqueued> {
    const addressed = await this.#checked("enqueue", () =>
      address(this.store, this.payloadLimit, definition, payload, options),
    );
    const { job } = addressed;
    const { holders, told } = await sent(this.store, [addressed], () =>
      this.#coalescer(addressed.queueId, [job]).add([job]),
    );
    return this.#tell([addressed], holders, { told })[0]!;
  }

  /** Enqueues jobs of one kind, all or none; answers in input order. `error.index` names a bad item. */
  async enqueueMany<D extends Definition | string>(
    definition: D,
    items: readonly (D extends string ? unknown : Item<InputOf<D>>)[],
    shared?: EnqueueOptions,
  ): Promise<Enqueued[]> {
    const all = await this.#checkedMany(definition, items, shared);
    if (all.length === 0) return [];
    const { chosen, answers } = firstOfEachKey(all);
    const jobs = chosen.map((one) => one.job);
    const inserting = sent(this.store, all, () => {
      const [{ queueId }] = chosen as [Addressed];
      return isOnePart(chosen)
        ? this.#coalescer(queueId, jobs).add(jobs)
        : insertTogether(this.store, chosen);
    });
    const { holders, told } = await inserting.catch(inInputOrder(answers)).catch(atUnfitItem(all));
    return this.#tell(all, answers(holders), { told });
  }

  /**
   * Publishes an event: each of its subscribers gets a job of its own, all of them or none. Subscribers are those whose
   * worker has started at least once before; later ones do not get it.
   * @returns the deliveries; none where nobody has subscribed.
   * @throws OptionsError, UnknownSubscriptionError, PayloadInvalidError, PayloadTooLargeError, NotJsonError,
   * SchemaNotReadyError: nothing was written.
   * @throws DatabaseUnavailableError, DatabaseRefusedError, EnqueueOutcomeUnknownError, as {@link enqueue} does.
   */
  async publish<E extends EventDefinition | string>(
    event: E,
    payload?: E extends string ? unknown : EventInput<E>,
    options?: PublishOptions,
  ): Promise<Delivery[]> {
    const all = await this.#addressEvent(event, payload, options);
    if (all.length === 0) return [];
    const jobs = all.map(({ job }) => job);
    const { holders, told } = await sent(this.store, all, () =>
      isOnePart(all)
        ? this.#coalescer(all[0]!.queueId, jobs).add(jobs)
        : insertTogether(this.store, all),
    );
    return deliveriesOf(all, this.#tell(all, holders, { told }));
  }

  /** Who gets an event, or all that anybody has subscribed to. @throws SchemaNotReadyError */
  async subscriptions(event?: EventDefinition | string): Promise<SubscriptionView[]> {
    return await this.#checked("read", () => subscriptions(this.store, event));
  }

  /**
   * Takes a subscription away, of a service that is gone or has another name now: nothing is delivered to it from then on.
   * Deliveries that wait stay jobs of the kind `name`. A worker whose code still declares it declares it anew within a minute.
   * @param name as {@link subscriptions} lists it: its `kind`.
   * @returns what it was.
   * @throws UnknownSubscriptionError, OptionsError, SchemaNotReadyError
   */
  async unsubscribe(event: EventDefinition | string, name: string): Promise<SubscriptionView> {
    return await this.#checked("unsubscribe", () => unsubscribe(this.store, event, name));
  }

  /**
   * The same inside the caller's transaction: the job exists if and only if it commits.
   * @param tx a TypeORM EntityManager or QueryRunner, or a `pg` client, inside its transaction: await its `begin` first.
   * @throws OptionsError for what is in no transaction, now and at each call; a `pg` client before 8.16 cannot say.
   * @throws TransactionFailedError, TransactionOverError at a call when the transaction cannot go on.
   */
  in(tx: TransactionLike): TransactionalQueue {
    const runner = onCallersTransaction(tx, this.store.schema);
    return {
      enqueue: async (definition, payload, options) => {
        const one = await this.#checked("enqueue", () =>
          address(this.store, this.payloadLimit, definition, payload, options),
        );
        const [answer] = await this.#within(tx, runner, [one]);
        return answer!;
      },
      enqueueMany: async (definition, items, shared) => {
        const all = await this.#checkedMany(definition, items, shared);
        return await this.#within(tx, runner, all).catch(atUnfitItem(all));
      },
      publish: async (event, payload, options) => {
        const all = await this.#addressEvent(event, payload, options);
        if (all.length === 0) return [];
        return deliveriesOf(all, await this.#within(tx, runner, all));
      },
      cancel: async (id) =>
        await this.one.cancelWithin(tx, runner, id, (work) => this.#onTheirs(work)),
    };
  }

  /** The job, whatever its state; null when there is none. @throws BadJobIdError */
  async get(id: string): Promise<JobView | null> {
    const { queueId, number } = parseJobId(id);
    const { store } = this;
    return await this.#checked("read", async () =>
      get(store, queueId, number, await store.offers(2)),
    );
  }

  /**
   * Waits for a job to end and answers what its handler returned, as JSON brings it back: `undefined` as null. However
   * many calls wait, they cost a process one statement a second. A job that fails and is retried is waited for on. Call it
   * once the job is committed, and not inside a transaction that its handler waits for.
   * `jobs.result<typeof Resize>(id)` has the type of the definition's result.
   * @param options how long to wait, 30 s by default, and a signal that ends the wait; the job goes on.
   * @throws JobResultDeadError, JobResultCancelledError, JobResultSkippedError: so it ended.
   * @throws JobResultUnknownError: there is no such job.
   * @throws JobResultNotKeptError: its result could not be stored, or it has left nothing (`keep: false`).
   * @throws JobResultTimeoutError, JobResultClosedError, or the signal's reason: it is not over.
   * @throws BadJobIdError, OptionsError, SchemaNotReadyError, DatabaseRefusedError, DatabaseUnavailableError
   */
  async result<D extends Definition = Definition>(
    id: string,
    options?: ResultOptions,
  ): Promise<ResultOf<D>> {
    const parsed = readable("options of result", () => parseResultOptions(options));
    const text = await this.results.of(id, parsed);
    return (text === null ? null : JSON.parse(text)) as ResultOf<D>;
  }

  /**
   * Cancels a job. One that waits is withdrawn: it will not start, its key is free (but for calls
   * with a window that is not over), {@link requeue} brings it back.
   * One that runs is asked to end: its signal aborts with {@link JobCancelledError}, wherever it runs, within a second;
   * on a schema before 4 it does not. Should this attempt fail, snooze, be handed back or lose its worker, the job is
   * cancelled; when it succeeds all the same, or is buried, it has. May be repeated.
   *
   * Inside a transaction (`jobs.in(tx).cancel(id)`) keep that short: until it ends, the job's settle waits for it. In
   * repeatable read and serializable a job that was made after the transaction's snapshot is 'unknown'.
   * @returns 'cancelled', also when it was before; 'requested' for one that runs; 'not-cancellable' when it has ended.
   * @throws BadJobIdError, JobLockedError, DatabaseUnavailableError, SchemaNotReadyError
   */
  async cancel(id: string): Promise<CancelAnswer> {
    return await this.one.cancel(id);
  }

  /**
   * Sends a dead letter back to its queue, as a new generation: same id, failures at 0, attempt numbers go on.
   * @param options a `payload` replaces the old one.
   * @returns 'not-requeueable' unless it is dead or cancelled, 'key-taken' when another job holds its key.
   * @throws BadJobIdError, OptionsError, NotJsonError, PayloadTooLargeError, DatabaseUnavailableError
   */
  async requeue(id: string, options: { payload?: unknown } = {}): Promise<RequeueAnswer> {
    return await this.one.requeue(id, options);
  }

  /**
   * Takes a job away for good, whether it waits, has ended or is dead; what was written of its attempts goes with its day.
   * A call that waits for its result is told that it has left nothing.
   * @returns 'running' for one that a worker has: cancel it first, or wait.
   * @throws BadJobIdError, JobLockedError, DatabaseUnavailableError, DatabaseRefusedError, SchemaNotReadyError
   */
  async delete(id: string): Promise<DeleteAnswer> {
    return await this.one.delete(id);
  }

  /** Waits for what is under way, no longer than `patience` ms. @throws OptionsError */
  async close(patience = 5_000): Promise<void> {
    const check = new OptionsCheck("call of close");
    check.integer("patience", patience, 0, MAX_PATIENCE_MS);
    check.done();
    let timer: NodeJS.Timeout | undefined;
    const deaf = this.results.close();
    await Promise.race([
      Promise.all([deaf, ...[...this.#coalescers.values()].map((one) => one.idle())]),
      new Promise((resolve) => (timer = setTimeout(resolve, patience))),
    ]);
    clearTimeout(timer);
    this.hints.close();
    this.one.close();
  }

  /** Calls go together with those of the same way only: a plain one does not wait for dearer ones, nor pay for headers. */
  #coalescer(queueId: number, jobs: readonly NewJob[]): Coalescer {
    const name = `${queueId} ${wayOf(jobs)} ${jobs[0]!.headers === undefined}`;
    let coalescer = this.#coalescers.get(name);
    if (!coalescer)
      this.#coalescers.set(name, (coalescer = new Coalescer(this.store, queueId, this.hints)));
    return coalescer;
  }

  async #within(
    tx: TransactionLike,
    runner: Runner,
    all: readonly Addressed[],
  ): Promise<Enqueued[]> {
    const { chosen, answers } = firstOfEachKey(all);
    const unsent = all.length === chosen.length ? [] : without(all, chosen);
    const found: Holder[] = Array.from({ length: chosen.length });
    const insertAllOf = async () => {
      await this.store.number(chosen.map((one) => one.job));
      // Part by part, each again by itself: what was inserted before it stays.
      for (const places of inParts(chosen)) {
        const part = places.map((place) => chosen[place]!);
        const jobs = part.map((one) => one.job);
        const insert = async () => {
          await this.store.number(jobs);
          const { queueId } = part[0]!;
          return await this.#onTheirs(() => insertJobs(runner, { queueId, jobs }));
        };
        const addressed = [...part, ...unsent.filter(({ job }) => job.queue === jobs[0]!.queue)];
        const ofPart = await sent(this.store, addressed, insert, { within: true });
        places.forEach((place, index) => (found[place] = ofPart[index]!));
      }
    };
    await this.#checked("enqueue", insertAllOf, chosen);
    const holders = answers(found);
    const calledAt = performance.now();
    const told = afterCommit(tx, (inDoubt) => {
      if (inDoubt && this.events.heard("enqueued"))
        void this.#tellOfThoseThere(all, holders, calledAt).catch(() => undefined);
      else this.#tell(all, holders, { calledAt });
    });
    if (!told) this.hints.hintAfterCommit(tx, dueTimes(all));
    return all.map((one, index) => answerFor(one, holders[index]!));
  }

  async #addressEvent(
    event: EventDefinition | string,
    payload: unknown,
    options: PublishOptions | undefined,
  ): Promise<Addressed[]> {
    return await this.#checked("enqueue", () =>
      addressEvent(this.store, this.payloadLimit, event, payload, options),
    );
  }

  /** On the caller's transaction, which may be one of a database without our tables. */
  async #onTheirs<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.store.guard(work);
    } catch (error) {
      if (!isMissingSchema(error)) throw error;
      throw new SchemaNotReadyError(this.store.schema, null, NEEDED_VERSION, undefined, true);
    }
  }

  /** They are committed: tells workers and observers, and answers the caller. */
  #tell(
    all: readonly Addressed[],
    holders: readonly Holder[],
    { told = false, calledAt }: { told?: boolean; calledAt?: number } = {},
  ): Enqueued[] {
    const heard = this.events.heard("enqueued");
    const untold: Addressed[] = [];
    const answers = all.map((one, index) => {
      const answer = answerFor(one, holders[index]!);
      if (answer.deduplicated && !answer.replaced) return answer;
      const { job } = one;
      const ms = dueIn(job);
      // What has a time of its own may have become due after others were told.
      if (!told || ms > 0 || job.at !== null) untold.push(one);
      if (heard && !answer.deduplicated)
        this.events.emit({
          event: "enqueued",
          id: answer.id,
          kind: job.kind,
          queue: job.queue,
          ...(ms > 0 ? { delayMs: ms } : {}),
        });
      return answer;
    });
    if (untold.length === 0) return answers;
    for (const { queueId, kind, ms } of dueTimes(untold, calledAt))
      this.hints.hintIn(queueId, kind, ms);
    return answers;
  }

  /** A part of their transaction was rolled back: only jobs that are there have been enqueued. */
  async #tellOfThoseThere(
    all: readonly Addressed[],
    holders: readonly Holder[],
    calledAt: number,
  ): Promise<void> {
    for (const { queueId, places } of byQueue(all)) {
      const ids = places.map((place) => holders[place]!.id);
      const there = await existing(this.store, queueId, ids);
      const found = places.filter((place) => there.has(holders[place]!.id));
      this.#tell(
        found.map((place) => all[place]!),
        found.map((place) => holders[place]!),
        { calledAt },
      );
    }
  }

  async #checkedMany(
    definition: Definition | string,
    items: readonly unknown[],
    shared?: EnqueueOptions,
  ): Promise<Addressed[]> {
    return await this.#checked("enqueue", () =>
      addressMany(this.store, this.payloadLimit, definition, items, shared),
    );
  }

  async #checked<T>(doing: Doing, work: () => Promise<T>, jobs?: readonly Addressed[]): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, doing, jobs);
    }
  }
}

function without<T>(all: readonly T[], some: readonly T[]): T[] {
  const those = new Set(some);
  return all.filter((one) => !those.has(one));
}

/** What a timer of Node can wait for. */
const MAX_PATIENCE_MS = 2_147_483_647;
