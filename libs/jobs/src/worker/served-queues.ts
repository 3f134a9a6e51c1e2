import { isLockTimeout } from "../pg/sqlstate.js";
import { ensureQueue } from "../store/queues/lanes.js";
import { type QueueSettings, applyQueueSettings } from "../store/queues/settings.js";
import type { Store } from "../store/store.js";
import type { Writes } from "../store/transitions/noted.js";
import { QueueWorker } from "./queue-worker.js";
import type { HandlerSlots } from "./served-lane.js";

// The queues that this process serves, by their ids in the database, and what it was told of each of them.

export interface WorkerQueue extends QueueSettings {
  name: string;
  concurrency: number;
  prefetch: number;
  /** Whether jobs that succeeded or were skipped are kept. */
  keep: boolean;
}

export interface ServedQueuesPorts {
  store: Store;
  handlers: ReadonlyMap<string, HandlerSlots>;
  /** The schema has been migrated under us. */
  grown(): Promise<void>;
  log(level: "log" | "warn", message: string, params: object): void;
}

export class ServedQueues {
  readonly #byId = new Map<number, QueueWorker>();
  readonly #said = new Map<number, WorkerQueue>();
  /** Whether what was said stands in the tables, where there is room for it. */
  #applied = false;

  constructor(
    private readonly told: readonly WorkerQueue[],
    private readonly ports: ServedQueuesPorts,
  ) {}

  get byId(): ReadonlyMap<number, QueueWorker> {
    return this.#byId;
  }

  /** Not after a new beginning: then there is another one for the queue. */
  includes(queue: QueueWorker): boolean {
    return this.#byId.get(queue.settings.id) === queue;
  }

  /** Finds or makes them in the database. */
  async prepare(): Promise<void> {
    const { store, handlers } = this.ports;
    for (const said of this.told) {
      const { id } = await ensureQueue(store.session, said.name);
      this.#byId.set(id, new QueueWorker({ ...said, id }, handlers));
      this.#said.set(id, said);
    }
    this.#applied = false;
    if (!store.has(2)) return;
    await this.#applySettings().catch((error: unknown) => {
      if (!isLockTimeout(error)) throw error;
      // Somebody's transaction has made a lane and goes on: with the next beat.
      this.ports.log("warn", "What queues were told cannot be written yet: one of them is locked", {
        queues: this.told.map(({ name }) => name),
      });
    });
  }

  /** The schema may have been migrated while we work on it: from now on its additions are used. */
  async grow(): Promise<void> {
    const { ports } = this;
    // Others of this process may have noticed it before.
    if (this.#applied || !(await ports.store.offers(2))) return;
    await ports.grown();
    await this.#applySettings();
  }

  /** They are not there any more. */
  forget(): void {
    this.#byId.clear();
    this.#said.clear();
  }

  /** How what happens to a job of this queue is written. */
  writes(queueId: number): Writes {
    const said = this.#said.get(queueId);
    return {
      history: this.ports.store.has(2),
      full: said?.history === "full",
      keep: said?.keep !== false,
    };
  }

  /** Where each process finds them, those that enqueue and requeue too. */
  async #applySettings(): Promise<void> {
    const { ports } = this;
    for (const [id, said] of this.#said) {
      const before = await applyQueueSettings(ports.store.session, id, said);
      if (before) this.#tellOfChange(before, said);
    }
    this.#applied = true;
  }

  /** A worker that says nothing of a queue says the defaults: whoever reads the log sees what went with it. */
  #tellOfChange(before: QueueSettings, said: WorkerQueue): void {
    const changed = SETTINGS.filter((key) => before[key] !== said[key]);
    const of = (settings: QueueSettings) =>
      Object.fromEntries(changed.map((key) => [key, settings[key]]));
    const values = { queue: said.name, before: of(before), now: of(said) };
    const message = "The settings of a queue are now those of this worker";
    if (AGES.some((key) => isShorter(said[key], before[key])))
      this.ports.log("warn", `${message}; dead letters go sooner than before`, values);
    else this.ports.log("log", message, values);
  }
}

const AGES = ["archiveDeadMs", "pruneDeadMs"] as const;
const SETTINGS = ["history", ...AGES] as const;

/** Null is for ever. */
const isShorter = (age: number | null, than: number | null) =>
  age !== null && age < (than ?? Number.POSITIVE_INFINITY);
