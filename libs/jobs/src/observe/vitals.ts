// What can be asked of this process at any time. Nobody is told of it, so that it costs nothing until somebody asks.

/** A worker of this process. */
export interface WorkerVitals {
  /** How many bodies run. */
  readonly running: number;
  /** How many may run at once. */
  readonly slots: number;
  /** How many attempts it has found in other hands. */
  readonly lost: number;
  /** How many leases it has renewed. */
  readonly renewals: number;
  /** For how long nothing that ended could be written, though it should; in ms, 0 when it can. */
  readonly unsettledMs: number;
  /** Its claims stand still although the database answers, and no repair has helped. */
  readonly stuck: boolean;
  /** The kinds that it runs, each in the queue that is its own. */
  readonly serves: readonly { readonly queue: string; readonly kind: string }[];
}

/** The connections of this process. */
export interface ConnectionVitals {
  /** The most that it opens. */
  readonly limit: number;
  /** Those of its own statements. */
  readonly sessions: number;
  /** Set aside for threads that renew and for listeners. */
  readonly reserved: number;
  /** Lent to `job.transaction()`, or about to be. */
  readonly lent: number;
  /** Given back a moment ago. */
  readonly idle: number;
  /** How many wait for one to be lent. */
  readonly waiting: number;
}

/** The workers and connections of this process, as they are now. */
export class Vitals {
  readonly #workers = new Set<WorkerVitals>();

  constructor(
    /** That of the tables. */
    readonly schema: string,
    private readonly askConnections: () => ConnectionVitals,
  ) {}

  /** Also those that have stopped: what they have counted stays. */
  get workers(): ReadonlySet<WorkerVitals> {
    return this.#workers;
  }

  get connections(): ConnectionVitals {
    return this.askConnections();
  }

  add(worker: WorkerVitals): void {
    this.#workers.add(worker);
  }
}
