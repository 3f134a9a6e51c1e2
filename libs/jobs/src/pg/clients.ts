import pg from "pg";
import type { Connection } from "./connect.js";

// Connections that are lent: whoever has one does with it what he likes until he gives it back. They are opened
// when they are needed, kept for a short while, and never more than are left of what this process may open.

/** Not one connection is left over to lend. */
export class NoneToLendError extends Error {
  override readonly name = "NoneToLendError";
}

/**
 * Begins a transaction on a lent connection: nothing waits for ever, and no plans are forced, for the statements are
 * the caller's. The bounds go with the transaction, since behind a pooler a connection keeps nothing.
 */
export const BEGIN =
  "begin isolation level read committed; set local statement_timeout = 60000; set local lock_timeout = 10000; " +
  "set local idle_in_transaction_session_timeout = 60000";

/**
 * What a session keeps beyond its transaction, as `discard all` takes it away, which would need a round trip of its own
 * and throw the plans of functions away.
 */
const RESET =
  "close all; reset session authorization; reset role; reset all; deallocate all; unlisten *; " +
  "select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences";

interface Waiting {
  resolve: (client: pg.Client | Promise<pg.Client>) => void;
}

const KEPT_MS = 10_000;

export class Clients {
  readonly #idle = new Map<pg.Client, NodeJS.Timeout>();
  readonly #lent = new Set<pg.Client>();
  /** Behind them are processes that are not ours. */
  readonly #pooled = new WeakSet<pg.Client>();
  #connecting = 0;
  #waiting: Waiting[] = [];
  #closed = false;

  constructor(
    private readonly connect: () => Promise<Connection>,
    /** How many may be open now. */
    private readonly limit: () => number,
  ) {}

  /** Connections that are open or being opened. */
  get open(): number {
    return this.#idle.size + this.#lent.size + this.#connecting;
  }

  /** Those of them that nobody has. */
  get idle(): number {
    return this.#idle.size;
  }

  /** How many wait for one. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * A connection, as soon as one is free: first come, first served. Rejects with the signal's reason when it aborts.
   * @throws NoneToLendError when there can never be one.
   */
  async take(signal: AbortSignal): Promise<pg.Client> {
    signal.throwIfAborted();
    const idle = [...this.#idle.keys()].at(-1);
    if (idle) return this.#lend(idle);
    if (this.open < this.limit()) return await this.#make();
    if (this.open === 0) throw new NoneToLendError("no connection is left");
    return await new Promise<pg.Client>((resolve, reject) => {
      const stop = () => {
        this.#waiting = this.#waiting.filter((one) => one !== waiting);
        reject(signal.reason as Error);
      };
      const waiting: Waiting = {
        resolve: (client) => {
          signal.removeEventListener("abort", stop);
          resolve(client);
        },
      };
      signal.addEventListener("abort", stop, { once: true });
      this.#waiting.push(waiting);
    });
  }

  /**
   * Ends its transaction and leaves nothing of its session, in one round trip. A process that a pooler lends keeps what
   * it has: others have set and prepared things on it too.
   * Answers how it has ended: to the commit of a failed transaction PostgreSQL answers that it has rolled back.
   */
  async end(client: pg.Client, how: "commit" | "rollback"): Promise<"commit" | "rollback"> {
    const pooled = this.#pooled.has(client);
    const answer: unknown = await client.query(pooled ? how : `${how}; ${RESET}`);
    if (!pooled) forgetPrepared(client);
    const [{ command }] = [answer].flat() as [{ command: string }];
    return command === "COMMIT" ? "commit" : "rollback";
  }

  /** It is as it was: others may have it. */
  give(client: pg.Client): void {
    if (!this.#lent.delete(client)) return;
    if (this.#closed) return void client.end().catch(() => undefined);
    const next = this.#waiting.shift();
    if (next) return next.resolve(this.#lend(client));
    this.#idle.set(client, setTimeout(() => this.drop(client), KEPT_MS).unref());
  }

  /** It is of no use any more; what runs on it is rolled back. */
  drop(client: pg.Client): void {
    clearTimeout(this.#idle.get(client));
    const ours = this.#idle.delete(client) || this.#lent.delete(client);
    // The socket itself: a peer that is gone would not answer a farewell.
    streamOf(client).destroy();
    if (!ours || this.#closed) return;
    const next = this.#waiting.shift();
    if (next) next.resolve(this.#make());
  }

  close(): void {
    this.#closed = true;
    for (const client of [...this.#idle.keys(), ...this.#lent]) this.drop(client);
  }

  async #make(): Promise<pg.Client> {
    this.#connecting++;
    try {
      const { client, borrowed } = await this.connect();
      if (borrowed) this.#pooled.add(client);
      client.on("error", () => this.drop(client));
      client.on("end", () => this.drop(client));
      if (this.#closed) streamOf(client).destroy();
      return this.#lend(client);
    } catch (error) {
      // Its place is free again: whoever waits for one tries for himself.
      const next = this.#waiting.shift();
      if (next) setImmediate(() => next.resolve(this.#make()));
      throw error;
    } finally {
      this.#connecting--;
    }
  }

  #lend(client: pg.Client): pg.Client {
    clearTimeout(this.#idle.get(client));
    this.#idle.delete(client);
    this.#lent.add(client);
    return client;
  }
}

/** pg sends the text of a named statement once, and now it is not there any more. */
function forgetPrepared(client: pg.Client): void {
  const { connection } = client as unknown as { connection: Record<string, object> };
  connection.parsedStatements = {};
  connection.submittedNamedStatements = {};
}

const streamOf = (client: pg.Client): { destroy(): void } =>
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream;
