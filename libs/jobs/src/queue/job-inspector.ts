import { OptionsCheck, isName, readable } from "../job/options-check.js";
import { parseJobId } from "../job/job-id.js";
import { unknownQueue } from "../job/unknown-queue.js";
import { type AttemptError, type JobView, attempts, get } from "../store/reads/job.js";
import {
  type KindCounts,
  type QueueHealth,
  counts,
  health,
  queueNames,
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

  /**
   * Backlog, lag, dead letters and expired leases of these queues; absent: of all.
   * @throws OptionsError when one of them has had neither a job nor a worker yet.
   */
  async health(queues?: readonly string[]): Promise<QueueHealth[]> {
    const asked = readable(SUBJECT, () => checkQueues(queues));
    const found = await this.#read(() => health(this.store, asked));
    if (asked && found.length < new Set(asked).size) {
      const known = await this.#read(() => queueNames(this.store));
      refuseUnknown(asked, known);
    }
    return found;
  }

  /** Kinds with waiting jobs that no live worker has a handler for. */
  async unknownKinds(): Promise<{ queue: string; kind: string }[]> {
    return await this.#read(() => unknownKinds(this.store));
  }

  async #read<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, "read");
    }
  }
}

const SUBJECT = "queues of JobInspector.health";

function checkQueues(queues: unknown): string[] | null {
  if (queues === undefined) return null;
  const check = new OptionsCheck(SUBJECT);
  if (!Array.isArray(queues)) check.expected("queues", "a list of queue names", queues);
  else
    queues.forEach((name: unknown, index) => {
      if (!isName(name)) check.expected(`queues[${index}]`, "the name of a queue", name);
    });
  check.done();
  return [...(queues as string[])];
}

function refuseUnknown(asked: readonly string[], known: readonly string[]): void {
  const check = new OptionsCheck(SUBJECT);
  asked.forEach((name, index) => {
    if (!known.includes(name)) check.add(`queues[${index}]: ${unknownQueue(name, known)}`);
  });
  check.done();
}
