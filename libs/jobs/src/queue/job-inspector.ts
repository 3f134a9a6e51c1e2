import { parseJobId } from "../job/job-id.js";
import { type AttemptError, type JobView, attempts, get } from "../store/reads/job.js";
import {
  type KindCounts,
  type QueueHealth,
  counts,
  health,
  unknownKinds,
} from "../store/reads/stats.js";
import type { Store } from "../store/store.js";
import { callerError } from "./failure.js";

// The way to look: reads only, none of them on the hot path.

/** Looks at jobs, queues and counters. */
export class JobInspector {
  /** @internal Made by `JobsModule.forRoot()`. */
  constructor(private readonly store: Store) {}

  /** The job, whatever its state; null when there is none. @throws BadJobIdError */
  async get(id: string): Promise<JobView | null> {
    const { queueId, number } = parseJobId(id);
    return await this.#read(() => get(this.store, queueId, number));
  }

  /** Each failed attempt with its error, oldest first. @throws BadJobIdError */
  async attempts(id: string): Promise<AttemptError[]> {
    const { queueId, number } = parseJobId(id);
    return await this.#read(() => attempts(this.store, queueId, number));
  }

  /** Jobs by queue, kind and state, from counters: the cost does not grow with the number of jobs. */
  async counts(): Promise<KindCounts[]> {
    return await this.#read(() => counts(this.store));
  }

  /** Backlog, lag, dead letters and expired leases of these queues; absent: of all. */
  async health(queues?: readonly string[]): Promise<QueueHealth[]> {
    return await this.#read(() => health(this.store, queues ?? null));
  }

  /** Kinds with waiting jobs that no live worker has a handler for. */
  async unknownKinds(): Promise<{ queue: string; kind: string }[]> {
    return await this.#read(() => unknownKinds(this.store));
  }

  async #read<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema);
    }
  }
}
