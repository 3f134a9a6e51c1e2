import {
  type RequestKey,
  type Taken,
  answerRequest,
  dropRequest,
  takeRequest,
} from "../store/operators/requests.js";
import { AUDIT_SINCE } from "../store/operators/audit.js";
import type { Store } from "../store/store.js";
import { callerError } from "./failure.js";

/** @internal Requests of the admin API that may be repeated: the second one gets the answer of the first. */
export class JobRequests {
  constructor(private readonly store: Store) {}

  /** Whether it is to be done, or was, or is under way, or may have been done. @throws SchemaNotReadyError, DatabaseUnavailableError */
  async take(key: RequestKey, asked: string): Promise<Taken> {
    return await this.#checked(() => takeRequest(this.store, key, asked));
  }

  async answer(key: RequestKey, fence: string, status: number, body: unknown): Promise<void> {
    await this.#checked(() => answerRequest(this.store, key, fence, status, body));
  }

  /** It is known that it was not done: it may be tried again. */
  async drop(key: RequestKey, fence: string): Promise<void> {
    await this.#checked(() => dropRequest(this.store, key, fence));
  }

  async #checked<T>(work: () => Promise<T>): Promise<T> {
    try {
      await this.store.needs(AUDIT_SINCE, "requests that may be repeated");
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, "audit");
    }
  }
}
