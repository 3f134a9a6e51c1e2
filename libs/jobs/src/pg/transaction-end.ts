import { EventEmitter } from "node:events";
import { transactionStatus } from "./transaction-status.js";

const waiting = new WeakMap<EventEmitter, Set<() => void>>();

/**
 * Calls back once the transaction on a client of `pg` has ended, by a commit or not, or its connection has; answers
 * false for what is no such client, or in no transaction. The server says after each statement whether it still is in one.
 */
export function whenTransactionEnds(tx: object, callback: () => void): boolean {
  const { connection } = tx as { connection?: unknown };
  if (!(connection instanceof EventEmitter) || !isOpen(transactionStatus(tx))) return false;
  const known = waiting.get(connection);
  if (known) known.add(callback);
  else watch(connection, new Set([callback]));
  return true;
}

const isOpen = (status: unknown): boolean => status === "T" || status === "E";

function watch(connection: EventEmitter, callbacks: Set<() => void>): void {
  waiting.set(connection, callbacks);
  const answered = ({ status }: { status?: string } = {}) => void (isOpen(status) || over());
  const over = () => {
    connection.off("readyForQuery", answered);
    connection.off("end", over);
    waiting.delete(connection);
    for (const callback of callbacks) callback();
  };
  connection.on("readyForQuery", answered);
  connection.on("end", over);
}
