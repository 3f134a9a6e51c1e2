import { randomBytes } from "node:crypto";
import pg from "pg";
import { connect, destroy } from "./connect.js";

// LISTEN on a connection of its own that proves itself: a dead one says nothing, so it sends itself a word on
// a private channel and starts anew when that does not come back. Whoever uses it polls all the same.

/** Who hears a channel. */
export interface Ear {
  onNotify(payload: string): void;
  /** It is heard from now on; words may have been missed. */
  onConnect(): void;
}

export interface ListenerOptions {
  config: pg.ClientConfig;
  channel: string;
  /** The connection was chosen for LISTEN: it is not asked whether it leads through a transaction pooler. */
  chosen?: boolean;
  /** The connection leads through a transaction pooler, where nothing is heard: there will be no other attempt. */
  onPooler?: () => void;
  onNotify: (payload: string) => void;
  /** Connected, for the first time or again: words may have been missed. */
  onConnect?: () => void;
  onLost?: (error: unknown) => void;
  /** How often it proves itself; default 15 s. */
  probeEvery?: number;
  /** For how long it waits for its own word; default 5 s. */
  probePatience?: number;
}

const MAX_BACKOFF_MS = 2_000;
const FAREWELL_MS = 500;

export class Listener {
  readonly #options: Required<Pick<ListenerOptions, "probeEvery" | "probePatience">> &
    ListenerOptions;
  readonly #privateChannel = `probe_${randomBytes(9).toString("hex")}`;
  #client: pg.Client | undefined;
  /** Other channels than its own. */
  readonly #ears = new Map<string, Ear>();
  /** What does not listen yet. */
  #opening: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #backoff = 100;
  #closed = false;

  constructor(options: ListenerOptions) {
    this.#options = { probeEvery: 15_000, probePatience: 5_000, ...options };
  }

  get connected(): boolean {
    return this.#client !== undefined;
  }

  /** Hears another channel on the same connection, from now on or when there is one. */
  add(channel: string, ear: Ear): void {
    this.#ears.set(channel, ear);
    if (this.#client) void this.#listenTo(this.#client, channel);
  }

  remove(channel: string): void {
    if (!this.#ears.delete(channel)) return;
    // With a long name it may be our own.
    if (channel === this.#options.channel) return;
    // A connection that breaks says so itself.
    this.#client?.query(`unlisten ${pg.escapeIdentifier(channel)}`).catch(() => undefined);
  }

  /** Connects in the background and stays connected. */
  start(): void {
    void this.#connect();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    if (this.#opening) destroy(this.#opening);
    const client = this.#client;
    this.#client = undefined;
    if (!client) return;
    // A dead peer would never answer, and the socket would keep the process alive.
    const late = setTimeout(() => destroy(client), FAREWELL_MS);
    await client.end().catch(() => undefined);
    clearTimeout(late);
  }

  async #connect(): Promise<void> {
    if (this.#closed) return;
    const { channel, onConnect, onPooler } = this.#options;
    let client: pg.Client;
    try {
      const connection = await this.#open();
      client = connection.client;
      if (connection.pooled) {
        this.#closed = true;
        await client.end().catch(() => undefined);
        onPooler?.();
        return;
      }
      try {
        await client.query(`listen ${pg.escapeIdentifier(channel)}`);
        await client.query(`listen ${this.#privateChannel}`);
      } catch (error) {
        await client.end().catch(() => undefined);
        throw error;
      }
    } catch (error) {
      this.#options.onLost?.(error);
      this.#again();
      return;
    } finally {
      this.#opening = undefined;
    }
    if (this.#closed) {
      await client.end().catch(() => undefined);
      return;
    }
    this.#client = client;
    this.#backoff = 100;
    client.on("notification", (word) => {
      if (word.channel === channel) this.#options.onNotify(word.payload ?? "");
      this.#ears.get(word.channel)?.onNotify(word.payload ?? "");
    });
    this.#timer = setTimeout(() => void this.#probe(client), this.#options.probeEvery).unref();
    onConnect?.();
    for (const other of this.#ears.keys()) void this.#listenTo(client, other);
  }

  async #listenTo(client: pg.Client, channel: string): Promise<void> {
    try {
      await client.query(`listen ${pg.escapeIdentifier(channel)}`);
    } catch {
      // It breaks, and says so itself.
      return;
    }
    if (this.#client === client) this.#ears.get(channel)?.onConnect();
  }

  async #open(): Promise<{ client: pg.Client; pooled: boolean }> {
    const { config, chosen = false, probePatience } = this.#options;
    const watch = (client: pg.Client) => {
      this.#opening = client;
      client.on("error", (error) => this.#lost(client, error));
      client.on("end", () => this.#lost(client, new Error("the server closed the connection")));
    };
    const ours = {
      ...config,
      application_name: "pg-jobs listen",
      connectionTimeoutMillis: 5_000,
      keepAlive: true,
      query_timeout: probePatience,
    };
    const { client, borrowed } = await connect(ours, { settings: {}, watch });
    return { client, pooled: borrowed !== undefined && !chosen };
  }

  async #probe(client: pg.Client): Promise<void> {
    let heard: () => void = () => {};
    const word = new Promise<void>((resolve) => (heard = resolve));
    const hear = ({ channel }: pg.Notification) =>
      void (channel === this.#privateChannel && heard());
    client.on("notification", hear);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error("its own word did not come back")),
        this.#options.probePatience,
      );
    });
    try {
      await Promise.race([
        Promise.all([client.query("select pg_notify($1, '')", [this.#privateChannel]), word]),
        late,
      ]);
      if (this.#client !== client) return;
      this.#timer = setTimeout(() => void this.#probe(client), this.#options.probeEvery).unref();
    } catch (error) {
      this.#lost(client, error);
    } finally {
      clearTimeout(timer);
      client.off("notification", hear);
    }
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    clearTimeout(this.#timer);
    destroy(client);
    this.#options.onLost?.(error);
    this.#again();
  }

  #again(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => void this.#connect(), this.#backoff).unref();
    this.#backoff = Math.min(this.#backoff * 2, MAX_BACKOFF_MS);
  }
}
