import { isLockTimeout } from "../pg/sqlstate.js";
import type { Runner } from "../pg/statement.js";
import { briefly } from "../store/briefly.js";
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
  /** Before the first job of a queue is claimed: what bounds it stands in the tables. */
  limit(queueId: number, queue: string): Promise<void>;
  /** The schema has been migrated under us. */
  grown(): Promise<void>;
  log(level: "log" | "warn", message: string, params: object): void;
}

type Patience = <T>(work: (runner: Runner) => Promise<T>) => Promise<T>;

export class ServedQueues {
  readonly #byId = new Map<number, QueueWorker>();
  readonly #said = new Map<number, WorkerQueue>();
  /** Somebody's open transaction makes them. */
  #unmade = new Set<WorkerQueue>();
  /** What was said of these does not stand in the tables yet: there is no room for it, or somebody has locked it. */
  #unwritten = new Map<number, WorkerQueue>();

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

  /**
   * Finds or makes them in the database. What somebody has locked comes with a later beat: the others are served.
   * Rejects when no queue can be had.
   * @param goesOn is called with each of them.
   */
  async prepare(goesOn: () => void = () => {}): Promise<void> {
    const { ports } = this;
    const { store } = ports;
    const patience: Patience = async (work) => {
      goesOn();
      return await work(store.session);
    };
    this.#unmade = new Set(this.told);
    this.#unwritten = new Map();
    const locked = await this.#make(patience);
    if (this.#byId.size === 0 && locked !== undefined) throw locked;
    if (locked !== undefined)
      ports.log("warn", "Queues that an open transaction of somebody else makes are served later", {
        queues: namesOf(this.#unmade),
      });
    if (!store.has(2)) return;
    await this.#write(patience);
    if (this.#unwritten.size > 0)
      ports.log("warn", "What queues were told is written later: somebody has locked them", {
        queues: namesOf(this.#unwritten.values()),
      });
  }

  /** With each beat: what was locked may be free, and the schema may have been migrated while we work on it. */
  async grow(): Promise<void> {
    const { ports } = this;
    const { store } = ports;
    const patience: Patience = async (work) => await briefly(store.session, work);
    await this.#make(patience);
    // Others of this process may have noticed it before.
    if (this.#unwritten.size === 0 || !(await store.offers(2))) return;
    await ports.grown();
    await this.#write(patience);
  }

  /** They are not there any more. */
  forget(): void {
    this.#byId.clear();
    this.#said.clear();
    this.#unmade = new Set();
    this.#unwritten = new Map();
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

  /** Answers the error of one that is locked. */
  async #make(patience: Patience): Promise<unknown> {
    const unmade = this.#unmade;
    let locked: unknown;
    for (const said of unmade) {
      try {
        const { id } = await patience(async (runner) => await ensureQueue(runner, said.name));
        await this.ports.limit(id, said.name);
        // A new beginning: this id may be of a schema that is gone.
        if (this.#unmade !== unmade) return locked;
        unmade.delete(said);
        this.#byId.set(id, new QueueWorker({ ...said, id }, this.ports.handlers));
        this.#said.set(id, said);
        this.#unwritten.set(id, said);
      } catch (error) {
        if (!isLockTimeout(error)) throw error;
        locked = error;
      }
    }
    return locked;
  }

  /** Where each process finds them, those that enqueue and requeue too. */
  async #write(patience: Patience): Promise<void> {
    const unwritten = this.#unwritten;
    for (const [id, said] of unwritten) {
      try {
        const before = await patience(async (runner) => await applyQueueSettings(runner, id, said));
        unwritten.delete(id);
        if (before) this.#tellOfChange(before, said);
      } catch (error) {
        if (!isLockTimeout(error)) throw error;
      }
    }
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

const namesOf = (queues: Iterable<WorkerQueue>): string[] => [...queues].map(({ name }) => name);

/** Null is for ever. */
const isShorter = (age: number | null, than: number | null) =>
  age !== null && age < (than ?? Number.POSITIVE_INFINITY);
