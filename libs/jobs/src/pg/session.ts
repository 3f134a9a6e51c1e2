import type pg from "pg";
import type { Backend } from "./backend.js";
import { type Borrowed, TooLateError } from "./borrowed.js";
import { ConnectionRefusedError, connect, destroy, processOf } from "./connect.js";
import { named } from "./connection.js";
import { type Asked, ask } from "./raw-query.js";
import { isFatal, isReadOnly, isUnprepared, sqlState } from "./sqlstate.js";
import { type Row, type Runner, Statement } from "./statement.js";

// One connection with a purpose: statements go one after another, it reconnects by itself, and every
// failure says whether the statement can have taken effect. It owns its client and never shares it.

/** The connection broke. `sent` tells whether a statement was under way, so that its outcome is unknown. */
export class ConnectionLostError extends Error {
  override readonly name = "ConnectionLostError";
  constructor(
    readonly sent: boolean,
    cause: unknown,
    /** Who was lost sight of, and may still have the statement before it. */
    readonly backend?: Backend,
  ) {
    super(sent ? "the connection was lost while a statement was under way" : "no connection", {
      cause,
    });
  }
}

/** There was no answer in time, but this process did not listen either. */
export class LoopBlockedError extends Error {
  override readonly name = "LoopBlockedError";
  constructor(replyTimeout: number, blockedMs: number) {
    super(
      `no answer was read within ${replyTimeout} ms: the event loop of this process was blocked for ` +
        `${Math.round(blockedMs)} ms or longer`,
    );
  }
}

/** The session was closed for good: the app is closing, or closed. */
export class SessionClosedError extends Error {
  override readonly name = "SessionClosedError";
  constructor() {
    super("the session is closed");
  }
}

export interface SessionOptions {
  /** Where to connect: host, user, TLS … of the `pg` client. */
  config: pg.ClientConfig;
  schema: string;
  /** Shown in `pg_stat_activity`. */
  name: string;
  /** Settings of the server session, given at connect. */
  settings?: Record<string, string | number>;
  /** A statement that has no answer after so many ms costs the connection: half-open TCP says nothing. */
  replyTimeout?: number;
  /** An answer that takes so many ms is as good as a new connection: until then nobody knows what happened. */
  slowAfter?: number;
  onConnect?: () => void;
  onLost?: (error: unknown) => void;
}

/** A statement that is sent right behind another one, as a commit of its own, whatever becomes of either. */
export class Word {
  /** It is on its way, or has arrived: the server comes to it as soon as the other is over. */
  sent = false;
  constructor(
    readonly statement: Statement,
    readonly values: readonly unknown[],
    readonly hooks: WordHooks = {},
  ) {}
}

export interface WordHooks {
  onSent?: () => void;
  /** It has failed, or its answer never came. */
  onLost?: () => void;
}

/** A failure that took so long is everybody's who waited meanwhile; after a quick one each tries for himself. */
const SLOW_CONNECT = 1_000;

/** A timer that is so late says that nothing else was done in time either. */
const BLOCKED_MS = 500;

const begin = new Statement(null, () => "begin");
const commit = new Statement(null, () => "commit");
const rollback = new Statement(null, () => "rollback");
const ping = new Statement(null, () => "select 1");

export class Session implements Runner {
  readonly schema: string;
  readonly #options: SessionOptions;
  readonly #replyTimeout: number;
  #client: pg.Client | undefined;
  /** How to send, when the connection leads through a pooler. */
  #borrowed: Borrowed | undefined;
  /** A pooler was found that had looked like the server. */
  #neverDirect = false;
  #connecting: Promise<pg.Client> | undefined;
  /** What has not connected yet. */
  #opening: pg.Client | undefined;
  #tail: Promise<unknown> = Promise.resolve();
  /** Ends the turn that is under way, whatever it waits for. */
  #abandon: (error: Error) => void = () => {};
  #closed = false;
  /** Until when nobody wonders about the turn that is under way: what it waits for has a limit. `performance.now()`. */
  #movesUntil: number | undefined;
  #worksSince: number | undefined;
  #heardAt = Number.NEGATIVE_INFINITY;
  /** The last attempt to connect that failed after a long time. */
  #failed: { at: number; error: unknown } | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.schema = options.schema;
    this.#replyTimeout = options.replyTimeout ?? 30_000;
  }

  get connected(): boolean {
    return this.#client !== undefined;
  }
  /** For good: nothing is sent any more. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Whether the connection leads through a pooler, which may hide that the server was restarted. */
  get pooled(): boolean {
    return this.#borrowed !== undefined;
  }

  /** For how many ms the present connection has worked, without an answer that was slow; 0 without one. */
  get worksFor(): number {
    return this.#worksSince === undefined ? 0 : performance.now() - this.#worksSince;
  }

  /** When the last statement that the server answered was sent: then, or later, it was there. `performance.now()`. */
  get heardAt(): number {
    return this.#heardAt;
  }

  /** For how many ms the turn that is under way has done nothing, beyond what its statement may take; 0 without one. */
  get hangsFor(): number {
    return this.#movesUntil === undefined ? 0 : Math.max(0, performance.now() - this.#movesUntil);
  }

  /** Whether the server says anything within so many ms, in line with what is under way. */
  async answers(ms: number): Promise<boolean> {
    let heard = false;
    const asked = this.run(ping).then(
      () => (heard = true),
      () => undefined,
    );
    await within(asked, ms);
    return heard;
  }

  /** Rows as raw text. Rejects with PostgreSQL's error, or with {@link ConnectionLostError}. */
  run(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.exclusive((run) => run(statement, values));
  }

  /** Runs statements, the first of them with a word behind it; behind a pooler that stays unsent. */
  with(word: Word): Runner {
    let next: Word | undefined = word;
    return {
      run: (statement, values = []) =>
        this.#inTurn((client) => {
          const sending = this.#send(client, statement, values);
          if (next) this.#follow(client, next);
          next = undefined;
          return sending;
        }),
    };
  }

  #follow(client: pg.Client, word: Word): void {
    if (this.#client !== client || this.#borrowed) return;
    // pg sends it at once: the server need not wait for us to hear that the other one has been committed.
    ask(client, this.#asked(word.statement, word.values)).catch(() => {
      word.sent = false;
      word.hooks.onLost?.();
    });
    word.sent = true;
    word.hooks.onSent?.();
  }

  /** Several statements with nothing in between; `fn` must not use the session itself. */
  exclusive<T>(fn: (run: Runner["run"]) => Promise<T>): Promise<T> {
    return this.#inTurn((client) =>
      fn((statement, values = []) => this.#send(client, statement, values)),
    );
  }

  /** `fn` inside a transaction; a rejection rolls back. */
  transaction<T>(fn: (run: Runner["run"]) => Promise<T>): Promise<T> {
    return this.#inTurn(async (client) => {
      const run: Runner["run"] = (statement, values = []) =>
        this.#send(client, statement, values, "in a transaction");
      await this.#send(client, begin, []);
      try {
        const value = await fn(run);
        await run(commit);
        return value;
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) await run(rollback);
        throw error;
      }
    });
  }

  /** Connects now, if it is not connected. */
  async connect(): Promise<void> {
    await this.exclusive(async () => undefined);
  }

  /** Waits for what is under way, then disconnects for good. With a dead peer it waits no longer than `patience` ms. */
  async close(patience = 5_000): Promise<void> {
    const end = performance.now() + patience;
    this.#closed = true;
    await within(this.#tail, patience);
    // Its own time limit is longer, and the socket would keep the process alive.
    if (this.#opening) destroy(this.#opening);
    await this.#disconnect(Math.max(0, end - performance.now()));
  }

  /** Disconnects once what is under way is over; the next statement connects again. */
  async hangUp(patience: number): Promise<void> {
    const turn = this.#tail.then(() => this.#disconnect(patience));
    this.#tail = turn;
    await turn;
  }

  /** Drops the connection, and ends the turn that is under way: its outcome is unknown. The next one connects again. */
  restart(why: Error): void {
    const backend = this.#borrowed?.backend ?? (this.#client && backendOf(this.#client));
    if (this.#client) this.#lost(this.#client, why);
    else if (this.#opening) destroy(this.#opening);
    this.#abandon(new ConnectionLostError(true, why, backend));
  }

  async #disconnect(patience: number): Promise<void> {
    const client = this.#client;
    this.#drop(client);
    if (!client) return;
    await within(
      client.end().catch(() => undefined),
      patience,
    );
    destroy(client);
  }

  #inTurn<T>(fn: (client: pg.Client) => Promise<T>): Promise<T> {
    const asked = performance.now();
    const turn = this.#tail.then(
      () =>
        new Promise<T>((resolve, reject) => {
          this.#abandon = reject;
          this.#movesUntil = performance.now();
          this.#connect(asked).then(fn).then(resolve, reject);
        }),
    );
    const over = () => (this.#movesUntil = undefined);
    this.#tail = turn.then(over, over);
    return turn;
  }

  async #connect(asked: number): Promise<pg.Client> {
    if (this.#closed) throw new ConnectionLostError(false, new SessionClosedError());
    if (this.#client) return this.#client;
    // It has waited for an attempt that failed late: with one each, the last in line would wait for minutes.
    if (this.#failed && this.#failed.at >= asked)
      throw new ConnectionLostError(false, this.#failed.error);
    this.#connecting ??= this.#open().finally(() => (this.#connecting = undefined));
    return await this.#connecting;
  }

  async #open(): Promise<pg.Client> {
    const { config, settings = {}, name } = this.#options;
    const watch = (client: pg.Client) => {
      this.#opening = client;
      client.on("error", (error) => this.#lost(client, error));
      client.on("end", () => this.#lost(client, new Error("the server closed the connection")));
    };
    const from = performance.now();
    const { client, borrowed } = await connect(
      { ...named(config, name), pipeline: true },
      {
        settings,
        watch,
        neverDirect: this.#neverDirect,
      },
    )
      .catch((error: unknown) => {
        if (error instanceof ConnectionRefusedError) throw error;
        const at = performance.now();
        if (at - from > SLOW_CONNECT) this.#failed = { at, error };
        throw new ConnectionLostError(false, error);
      })
      .finally(() => (this.#opening = undefined));
    if (this.#closed) {
      await client.end().catch(() => undefined);
      throw new ConnectionLostError(false, new SessionClosedError());
    }
    this.#client = client;
    this.#borrowed = borrowed;
    this.#worksSince = performance.now();
    this.#options.onConnect?.();
    return client;
  }

  async #send(
    client: pg.Client,
    statement: Statement,
    values: readonly unknown[],
    where?: "in a transaction",
  ): Promise<Row[]> {
    if (this.#client !== client)
      throw new ConnectionLostError(false, new Error("the connection was lost before"));
    const { slowAfter = Number.POSITIVE_INFINITY } = this.#options;
    const borrowed = this.#borrowed;
    const replyTimeout = statement.replyTimeout ?? this.#replyTimeout;
    const sentAt = performance.now();
    this.#movesUntil = sentAt + replyTimeout;
    let overdue: Error | undefined;
    const timer = setTimeout(() => {
      const late = performance.now() - sentAt - replyTimeout;
      overdue =
        late > BLOCKED_MS
          ? new LoopBlockedError(replyTimeout, late)
          : new Error(`no answer within ${replyTimeout} ms`);
      this.#lost(client, overdue);
    }, replyTimeout);
    try {
      const asked = this.#asked(statement, values);
      return await (borrowed && !where ? borrowed.run(client, asked) : ask(client, asked));
    } catch (error) {
      if (error instanceof TooLateError) throw new ConnectionLostError(false, error);
      if (this.#client === client && !borrowed && isUnprepared(error)) {
        this.#neverDirect = true;
        this.#lost(client, error);
        throw new ConnectionLostError(false, error);
      }
      // After a failover this server is a standby: the way to the new one leads through a new connection.
      if (this.#client === client && isReadOnly(error)) {
        this.#lost(client, error);
        throw new ConnectionLostError(false, error);
      }
      if (this.#client === client && !isFatal(error) && sqlState(error) !== undefined) throw error;
      this.#lost(client, error);
      throw new ConnectionLostError(
        true,
        overdue ?? error,
        borrowed ? borrowed.backend : backendOf(client),
      );
    } finally {
      clearTimeout(timer);
      const now = performance.now();
      if (this.#client === client) {
        this.#movesUntil = now;
        this.#heardAt = sentAt;
        if (now - sentAt > slowAfter) this.#worksSince = now;
      }
    }
  }

  #asked(statement: Statement, values: readonly unknown[]): Asked {
    const name = statement.name === null || this.#borrowed ? undefined : statement.name;
    return { text: statement.text(this.schema), name, values };
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#client !== client) return;
    this.#drop(client);
    destroy(client);
    if (!this.#closed) this.#options.onLost?.(error);
  }

  #drop(client: pg.Client | undefined): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    this.#borrowed = undefined;
    this.#worksSince = undefined;
  }
}

function backendOf(client: pg.Client): Backend | undefined {
  const pid = processOf(client);
  return pid === undefined ? undefined : { pid };
}

async function within(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([work, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
