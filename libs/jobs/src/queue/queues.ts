import { OptionsError, UnknownKindError, UnknownQueueError } from "../job/errors.js";
import { describe, nearest, readable } from "../job/options-check.js";
import type { LimitOrder, LimitView } from "../job/limit.js";
import type { PauseOptions, PauseOrder } from "../job/pause.js";
import { type ProcessOptions, parseProcessOptions } from "../job/process-options.js";
import {
  type QueuePart,
  parseLimitOrder,
  parseQueueName,
  parseQueueOrder,
} from "../job/queue-order.js";
import {
  PAUSES_SINCE,
  type QueueView,
  find,
  kindsOf,
  pause,
  queueViews,
  resume,
} from "../store/queues/pauses.js";
import { pause as pauseKey, resume as resumeKey } from "../store/limits/key-pauses.js";
import { LIMITS_SINCE, WHOLE, dropUnbound, rulesOf, setRules } from "../store/limits/rules.js";
import { sweep } from "../store/limits/sweep.js";
import { limitViews } from "../store/limits/views.js";
import { queueNames } from "../store/reads/stats.js";
import type { Store } from "../store/store.js";
import { type Doing, callerError, done } from "./failure.js";
import type { Hints } from "./hints.js";
import { type ProcessReport, process } from "./process.js";

// Queues, as those who operate them see them. What was said of a queue here, its workers heed; what it is made of
// (slots, history, ages) is told by the workers themselves.

/** Queues that jobs wait in: to look at, to pause, to resume, to bound. */
export class JobQueues {
  /** @internal Made by {@link JobQueue}. */
  constructor(
    private readonly store: Store,
    private readonly hints: Hints,
  ) {}

  /** All queues, by name. @throws SchemaNotReadyError */
  async list(): Promise<QueueView[]> {
    return await this.#checked("read", () => queueViews(this.store));
  }

  /** The queue of this name; null when it has had neither a job nor a worker yet. @throws SchemaNotReadyError */
  async get(queue: string): Promise<QueueView | null> {
    return await this.#checked("read", async () => {
      const [view] = await queueViews(
        this.store,
        readable("queue", () => parseQueueName(queue)),
      );
      return view ?? null;
    });
  }

  /**
   * No job of it is started from now on, wherever; jobs that run go on, jobs that come wait. Workers know at once (those
   * that do not LISTEN within their poll interval), until then they start at most what they hold already. A pause that
   * stands is changed to what this call says, its beginning stays. May be repeated.
   * @throws UnknownQueueError, UnknownKindError, OptionsError, SchemaNotReadyError, DatabaseUnavailableError
   */
  async pause(queue: string, options: PauseOptions & QueuePart = {}): Promise<QueueView> {
    return await this.#changing(
      queue,
      "pause",
      options,
      async (id, { kind, key, keyPath }, order) => {
        if (key === undefined) return await pause(this.store, id, kind, order);
        // One that is taken away meanwhile is looked for again, and missed.
        while (
          !(await pauseKey(this.store, id, await this.#ruleOf(id, kind, keyPath), key, order))
        );
      },
    );
  }

  /**
   * It goes on. A queue and its kinds are paused apart: what is resumed is what was paused. May be repeated.
   * @throws UnknownQueueError, UnknownKindError, OptionsError, SchemaNotReadyError, DatabaseUnavailableError
   */
  async resume(queue: string, part: QueuePart = {}): Promise<QueueView> {
    return await this.#changing(queue, "resume", part, async (id, { kind, key, keyPath }) => {
      if (key === undefined) return await resume(this.store, id, kind);
      await resumeKey(this.store, id, await this.#ruleOf(id, kind, keyPath), key);
      await done(async () => {
        await this.store.transaction((run) => dropUnbound({ run }, id));
        await this.#release(id);
      });
    });
  }

  /**
   * What bounds this queue, or one of its kinds, in all processes from now on: all of it, `{}` takes its limits away. It
   * holds until the code of a worker says something else than before. What runs goes on, and counts. May be repeated.
   * @throws UnknownQueueError, UnknownKindError, OptionsError, SchemaNotReadyError, DatabaseUnavailableError
   */
  async limit(queue: string, order: LimitOrder): Promise<LimitView[]> {
    return await this.#limited("limit", async () => {
      const { kind, rules, by, why } = readable("call of limit", () =>
        parseLimitOrder(queue, order),
      );
      const id = await this.#find(queue, kind);
      const said = { kind: kind ?? WHOLE, rules, by, why };
      const changed = await this.store.transaction((run) => setRules({ run }, id, said));
      if (changed) this.hints.changed(id);
      return await done(async () => {
        if (changed) await this.#release(id);
        return await limitViews(this.store, id);
      });
    });
  }

  /**
   * Works off what is due now: notes the jobs that come next, tells all workers, and waits for what becomes of them, no
   * longer than the timeout. Workers start them as they always do: what is paused stays so, limits hold, and where others
   * keep all slots busy jobs wait.
   * @throws NoWorkerError when nobody could start one; UnknownQueueError, UnknownKindError, OptionsError,
   * SchemaNotReadyError, DatabaseUnavailableError, the signal's reason
   */
  async process(queue: string, options: ProcessOptions = {}): Promise<ProcessReport> {
    return await this.#checked("read", async () => {
      const parsed = readable("options of process", () => {
        parseQueueName(queue);
        return parseProcessOptions(options);
      });
      const id = await this.#find(queue, parsed.kind ?? undefined);
      return await process(this.store, this.hints, { id, name: queue }, parsed);
    });
  }

  /** The limits of this queue and its kinds, with what they count. @throws UnknownQueueError, SchemaNotReadyError */
  async limits(queue: string): Promise<LimitView[]> {
    return await this.#limited("read", async () => {
      readable("queue", () => parseQueueName(queue));
      return await limitViews(this.store, await this.#find(queue, undefined));
    });
  }

  /** What a limit kept aside and does not any more. */
  async #release(queueId: number): Promise<void> {
    await sweep(this.store.aside, queueId);
    this.hints.tellOthers({ queueId, behind: true });
  }

  /** The limit that knows the keys of a queue, or of one of its kinds. */
  async #ruleOf(
    queueId: number,
    kind: string | undefined,
    keyPath: string | undefined,
  ): Promise<number> {
    await this.store.needs(LIMITS_SINCE, "limits over all processes");
    const rules = await rulesOf(this.store, [queueId]);
    const keyed = rules.filter((one) => one.kind === (kind ?? WHOLE) && one.keyPath !== "");
    const meant = keyPath === undefined ? keyed : keyed.filter((one) => one.keyPath === keyPath);
    if (meant.length === 1) return meant[0]!.id;
    const paths = keyed.map((one) => one.keyPath).join(", ");
    const what = kind === undefined ? "queue" : "kind";
    throw new OptionsError("key of a queue", [
      keyed.length === 0
        ? `key: expected a limit or rate with a key for this ${what}, which says where keys stand, found none; jobs.queues.limit sets it`
        : `keyPath: expected which key of this ${what} is meant (${paths}), found ${keyPath === undefined ? "none" : describe(keyPath)}`,
    ]);
  }

  async #find(queue: string, kind: string | undefined): Promise<number> {
    const found = await find(this.store, queue, kind);
    if (!found) throw await this.#unknownQueue(queue);
    if (kind !== undefined && !found.hasKind) {
      const kinds = await kindsOf(this.store, found.id);
      throw new UnknownKindError(queue, kind, nearest(kind, kinds));
    }
    return found.id;
  }

  async #changing(
    queue: string,
    verb: "pause" | "resume",
    options: PauseOptions & QueuePart,
    change: (queueId: number, part: QueuePart, order: PauseOrder) => Promise<void>,
  ): Promise<QueueView> {
    return await this.#checked(verb, async () => {
      const { part, order } = readable(`call of ${verb}`, () =>
        parseQueueOrder(verb, queue, options),
      );
      const id = await this.#find(queue, part.kind);
      await change(id, part, order);
      this.hints.changed(id);
      return await done(async () => {
        const [view] = await queueViews(this.store, queue);
        if (!view) throw await this.#unknownQueue(queue);
        return view;
      });
    });
  }

  async #unknownQueue(queue: string): Promise<UnknownQueueError> {
    return new UnknownQueueError(queue, nearest(queue, await queueNames(this.store)));
  }

  async #limited<T>(doing: Doing, work: () => Promise<T>): Promise<T> {
    return await this.#checked(doing, work, [LIMITS_SINCE, "limits over all processes"]);
  }

  async #checked<T>(
    doing: Doing,
    work: () => Promise<T>,
    needed: [version: number, feature: string] = [PAUSES_SINCE, "pauses of queues"],
  ): Promise<T> {
    try {
      await this.store.needs(...needed);
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, doing);
    }
  }
}
