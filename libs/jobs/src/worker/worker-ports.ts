import type { Handler } from "../handler/handler.js";
import type { Events } from "../observe/events.js";
import type { Database } from "../pg/database.js";
import type { Store } from "../store/store.js";
import type { AttemptPorts } from "./attempt.js";
import type { WorkerQueue } from "./served-queues.js";
import type { TransactionPorts } from "./transactions.js";

// What the worker is told, and what it asks of others: the module gives both.

export interface WorkerSettings {
  queues: readonly WorkerQueue[];
  /** How long what is finished is kept. */
  keepFinishedMs: number;
  leaseMs: number;
  pollMs: number;
  graceMs: number;
  notify: boolean;
  /** In bytes. */
  resultLimit: number;
}

export interface WorkerPorts extends Omit<AttemptPorts, "transaction" | "reported"> {
  database: Database;
  store: Store;
  events: Events;
  handlers: readonly Handler[];
  /** Of this package; null: not known. */
  release: string | null;
  /** A job of this queue can run, here or in another process. */
  hint(queueId: number, kind: string): void;
  /** Other processes shall know that jobs of this queue can run. */
  tellOthers(queueId: number): void;
  /** Which events its handlers get. */
  subscriptions: {
    /** Says which they are, unless it was said a moment ago; rejects when that cannot be. */
    keep(): Promise<void>;
    /** The tables are others. */
    forget(): void;
  };
  /** What is enqueued at set times: of the code of this process, and of all. */
  schedules: SchedulePorts;
  limits: LimitPorts;
  /** Jobs of this queue that were set aside can run: other processes shall know. */
  released(queueId: number): void;
  /** Runs a background duty that is due. */
  chore(name: string): Promise<void>;
  log(level: "log" | "warn" | "error", message: string, params?: object): void;
  /** Awaited jobs of this queue have ended, and that is committed. */
  answered(queueId: number, ids: readonly string[]): void;
  /** Runs our statements on somebody's transaction. */
  on: TransactionPorts["on"];
}

/** What the code of this process says of limits. */
export interface LimitPorts {
  /** It holds for this queue from now on; rejects when that cannot be. */
  declare(queueId: number, queue: string): Promise<void>;
  /** Says that it still is so, unless that was said a moment ago. */
  keep(): Promise<void>;
  /** The tables are others. */
  forget(): void;
}

export interface SchedulePorts {
  /** Whether the schema has them, and our role may see to them. */
  ready(): boolean;
  /** Enqueues what is due; answers whether there was any. */
  fire(): Promise<boolean>;
  /** Says what the code of this process declares, unless it was said a moment ago. */
  keep(): Promise<void>;
  /** The tables are others. */
  forget(): void;
}
