import { EventEmitter } from "node:events";
import type pg from "pg";
import { TransactionOverError } from "../job/errors.js";

/** A connection in the user's hands, until it is taken back. */
export interface Lent {
  client: pg.ClientBase;
  /** What has failed the transaction, when a statement has. */
  readonly failure: unknown;
  /** Answers whether others may have it: what was changed of the client itself is nothing that a server resets. */
  takeBack(): boolean;
}

const EVENTS = ["notice", "notification", "error", "drain", "end"] as const;

/**
 * A face of the client with listeners of its own: none of them stays with the connection. Once it is taken back it
 * refuses whatever a body that was not awaited still sends, or that would land in the transaction of another job.
 */
export function lend(client: pg.Client, jobId: string): Lent {
  let over = false;
  let changed = false;
  let failure: unknown;
  // Whoever has sent the statement; one after it is refused for it, one before a savepoint's end does not count.
  const onError = (error: unknown) => {
    if (client.getTransactionStatus() === "T") failure = error;
  };
  const { connection } = client as unknown as { connection: EventEmitter };
  connection.on("errorMessage", onError);
  const listeners = new EventEmitter();
  const tellers = EVENTS.map((event) => {
    const tell = (...said: unknown[]) => {
      if (listeners.listenerCount(event) > 0) listeners.emit(event, ...said);
    };
    client.on(event as "notice", tell);
    return { event: event as "notice", tell };
  });
  const onListeners = (name: string | symbol): unknown => {
    const value: unknown = Reflect.get(listeners, name);
    if (typeof value !== "function") return value;
    return (...given: unknown[]): unknown => {
      const answer: unknown = Reflect.apply(value, listeners, given);
      return answer === listeners ? face : answer;
    };
  };
  const face: pg.Client = new Proxy(client, {
    get(target, name) {
      if (over && (name === "query" || name === "end" || name === "connect"))
        return (...given: unknown[]) => refuse(new TransactionOverError(jobId), given);
      if (Object.hasOwn(EventEmitter.prototype, name) && name !== "constructor")
        return onListeners(name);
      if (name === "setTypeParser") {
        if (over) return () => undefined;
        changed = true;
      }
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
    set(target, name, value) {
      if (over) return true;
      changed = true;
      return Reflect.set(target, name, value);
    },
  });
  return {
    client: face,
    get failure() {
      return failure;
    },
    takeBack() {
      over = true;
      connection.off("errorMessage", onError);
      for (const { event, tell } of tellers) client.off(event, tell);
      return !changed;
    },
  };
}

type Callback = (error: Error) => void;

/** Tells it in the way that was asked for: to a callback, to a query object such as a cursor, by the promise. */
function refuse(error: Error, given: readonly unknown[]): unknown {
  const [query] = given as [
    { submit?: unknown; callback?: unknown; handleError?: (error: Error) => void }?,
  ];
  if (typeof query?.submit === "function") {
    process.nextTick(() => query.handleError?.(error));
    return query;
  }
  const callback = [...given, query?.callback].find((one) => typeof one === "function");
  if (!callback) return Promise.reject(error);
  process.nextTick(() => (callback as Callback)(error));
  return undefined;
}
