import { UnknownKindError, UnknownQueueError } from "../job/errors.js";
import { OptionsCheck, isName, nearest, readable } from "../job/options-check.js";
import { type PauseOptions, type PauseOrder, readPause } from "../job/pause.js";
import {
  PAUSES_SINCE,
  type QueueView,
  find,
  kindsOf,
  pause,
  queueViews,
  resume,
} from "../store/queues/pauses.js";
import { queueNames } from "../store/reads/stats.js";
import type { Store } from "../store/store.js";
import { type Doing, callerError } from "./failure.js";
import type { Hints } from "./hints.js";

// Queues, as those who operate them see them. What was said of a queue here, its workers heed; what it is made of
// (slots, history, ages) is told by the workers themselves.

/** What of a queue is meant. */
export interface QueuePart {
  /** One of its kinds; absent: all of it. */
  kind?: string;
}

/** Queues that jobs wait in: to look at, to pause, to resume. */
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
        readable("queue", () => checkName(queue)),
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
    return await this.#changing(queue, "pause", options, async (id, kind, order) => {
      await pause(this.store, id, kind, order);
    });
  }

  /**
   * It goes on. A queue and its kinds are paused apart: what is resumed is what was paused. May be repeated.
   * @throws UnknownQueueError, UnknownKindError, OptionsError, SchemaNotReadyError, DatabaseUnavailableError
   */
  async resume(queue: string, part: QueuePart = {}): Promise<QueueView> {
    return await this.#changing(queue, "resume", part, async (id, kind) => {
      await resume(this.store, id, kind);
    });
  }

  async #changing(
    queue: string,
    verb: "pause" | "resume",
    options: PauseOptions & QueuePart,
    change: (queueId: number, kind: string | undefined, order: PauseOrder) => Promise<void>,
  ): Promise<QueueView> {
    return await this.#checked(verb, async () => {
      const { kind, order } = readable(`call of ${verb}`, () => parse(verb, queue, options));
      const found = await find(this.store, queue, kind);
      if (!found) throw await this.#unknownQueue(queue);
      if (kind !== undefined && !found.hasKind) {
        const kinds = await kindsOf(this.store, found.id);
        throw new UnknownKindError(queue, kind, nearest(kind, kinds));
      }
      await change(found.id, kind, order);
      this.hints.changed(found.id);
      const [view] = await queueViews(this.store, queue);
      if (!view) throw await this.#unknownQueue(queue);
      return view;
    });
  }

  async #unknownQueue(queue: string): Promise<UnknownQueueError> {
    return new UnknownQueueError(queue, nearest(queue, await queueNames(this.store)));
  }

  async #checked<T>(doing: Doing, work: () => Promise<T>): Promise<T> {
    try {
      await this.store.needs(PAUSES_SINCE, "pauses of queues");
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, doing);
    }
  }
}

function checkName(queue: string): string {
  const check = new OptionsCheck("name of a queue");
  if (!isName(queue)) check.expected("queue", NAME, queue);
  check.done();
  return queue;
}

function parse(
  verb: "pause" | "resume",
  queue: string,
  options: PauseOptions & QueuePart,
): { kind: string | undefined; order: PauseOrder } {
  const check = new OptionsCheck(`call of ${verb}`);
  if (!isName(queue)) check.expected("queue", NAME, queue);
  const allowed = verb === "pause" ? ["kind", "by", "why", "until"] : ["kind"];
  const given = check.object("", options, allowed) ? options : {};
  const kind = check.name("kind", given.kind);
  const order = readPause(check, given);
  check.done();
  return { kind, order };
}

const NAME = "1 to 64 characters without control characters";
