import type pg from "pg";
import { Clients } from "./clients.js";
import { connect, destroy } from "./connect.js";
import { named } from "./connection.js";
import { Session, type SessionOptions } from "./session.js";

/** What a session is for; each kind has the settings its statements were measured with. */
export type Purpose = "front" | "aside" | "claim" | "settle";

// Plans are forced generic: our hot statements have one sensible plan each, and the planner would otherwise
// make a new one every time (LIMIT $n looks dear) or keep one that it made for an empty table.
const planned = { plan_cache_mode: "force_generic_plan", enable_seqscan: "off" };
// A vacuum that finds a queue empty lets the planner think, until the next one, that there is nothing to sort: it would
// gather all that is due, or all that was ever there, for each claim. Only the claim index has their order.
const inOrder = { enable_sort: "off", enable_bitmapscan: "off" };
const common = {
  timezone: "UTC",
  datestyle: "ISO",
  idle_in_transaction_session_timeout: 30_000,
  // What is switched off below makes plans look dear that are not: nothing of ours is worth compiling.
  jit: "off",
  // Whatever a database or a role has for its default: our statements judge rows anew that they have waited for.
  default_transaction_isolation: "read committed",
};

// Generic or for the values of a call, as PostgreSQL likes; what it reads whole has no other way.
const front = {
  ...common,
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  statement_timeout: 20_000,
  lock_timeout: 2_000,
};

const SETTINGS: Record<Purpose, Record<string, string | number>> = {
  front,
  // It walks lanes too.
  aside: { ...front, ...inOrder },
  // A lost claim only means that the job runs again: no need to wait for the disk.
  claim: {
    ...common,
    ...planned,
    ...inOrder,
    synchronous_commit: "off",
    statement_timeout: 2_000,
    lock_timeout: 1_000,
  },
  // Whatever waits for a lock keeps all other ends of jobs waiting.
  settle: { ...common, ...planned, statement_timeout: 20_000, lock_timeout: 2_000 },
};

/** How many connections are open, and for what. */
export interface ConnectionUse {
  /** The most that may be. */
  limit: number;
  /** Sessions. */
  sessions: number;
  /** Elsewhere: set aside for threads and listeners. */
  reserved: number;
  /** Lent, or being opened for that. */
  lent: number;
  /** Given back a moment ago. */
  idle: number;
  /** How many wait for one to be lent. */
  waiting: number;
}

/** Opens sessions to one database, and never more than it may. */
export class Database {
  readonly #sessions = new Set<Session>();
  #reserved = 0;
  /** What is left of the connections, to be lent. */
  readonly clients = new Clients(
    async () =>
      await connect(named(this.config, "pg-jobs transaction"), {
        settings: {},
        // It may break before anybody listens.
        watch: (client) => void client.on("error", () => undefined),
      }),
    () => this.connections - this.#sessions.size - this.#reserved,
  );

  constructor(
    readonly config: pg.ClientConfig,
    readonly schema: string,
    /** Hard cap of connections of this process. */
    readonly connections: number,
    /** Where LISTEN goes, when a transaction pooler stands in front of the database. */
    readonly listenConfig?: pg.ClientConfig,
  ) {}

  open(
    purpose: Purpose,
    hooks: Pick<SessionOptions, "onConnect" | "onLost" | "slowAfter"> = {},
  ): Session {
    if (this.#sessions.size >= this.connections) {
      throw new Error(
        `no connection left for "${purpose}": ${this.connections} are in use, which is the limit`,
      );
    }
    const session = new Session({
      ...hooks,
      config: this.config,
      schema: this.schema,
      name: `pg-jobs ${purpose}`,
      settings: SETTINGS[purpose],
      replyTimeout: purpose === "claim" ? 7_000 : 25_000,
    });
    this.#sessions.add(session);
    return session;
  }

  /** So many connections may still be opened. */
  get spare(): number {
    return this.connections - this.#sessions.size - this.#reserved - this.clients.open;
  }

  /**
   * Whether the server answers within so many ms. It is asked over a connection for this question alone, where nobody's
   * statements stand in the way; over `shared` when none is left for that.
   */
  async answers(ms: number, shared: Session): Promise<boolean> {
    // One stays to be lent.
    if (this.spare < 2) return await shared.answers(ms);
    this.reserve(1);
    let client: pg.Client | undefined;
    const watch = (dialled: pg.Client) => {
      client = dialled.on("error", () => undefined);
    };
    const greeted = connect(named(this.config, "pg-jobs probe"), { settings: {}, watch }).then(
      () => true,
      () => false,
    );
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
    try {
      return await Promise.race([greeted, late]);
    } finally {
      clearTimeout(timer);
      if (client) destroy(client);
      this.reserve(-1);
    }
  }

  /** What is open now, and for what. */
  get use(): ConnectionUse {
    const { open, idle, waiting } = this.clients;
    return {
      limit: this.connections,
      sessions: [...this.#sessions].filter(({ connected }) => connected).length,
      reserved: this.#reserved,
      lent: open - idle,
      idle,
      waiting,
    };
  }

  /** So many connections are opened elsewhere, by threads and listeners; fewer than none: they are closed. */
  reserve(connections: number): void {
    this.#reserved += connections;
  }

  async release(session: Session, patience?: number): Promise<void> {
    await session.close(patience);
    this.#sessions.delete(session);
  }

  /** Closes whatever is open. */
  async close(patience?: number): Promise<void> {
    this.clients.close();
    await Promise.all([...this.#sessions].map((session) => this.release(session, patience)));
  }
}
