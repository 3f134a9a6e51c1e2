import type { Database } from "../pg/database.js";
import { type Ear, Listener } from "../pg/listener.js";
import { answeredChannel } from "../store/queues/answered.js";

// Hears that awaited jobs have ended, while somebody waits: on the connection on which a worker of this process listens
// anyway, or else on one of its own. Where it has none, or it leads through a pooler, the poll serves.

/** So long a connection is kept for those who wait next. */
const LINGER_MS = 5_000;

/** Where the workers of this process listen. */
export interface LocalListener {
  /** Whether this process has had workers. */
  readonly any: boolean;
  readonly listener: Listener | undefined;
}

export class ResultEar {
  #own: Listener | undefined;
  #shared: Listener | undefined;
  #resting: NodeJS.Timeout | undefined;
  /** For good: closed, or nothing is heard there. */
  #deaf: boolean;

  constructor(
    private readonly database: Database,
    notify: boolean,
    private readonly local: LocalListener,
    private readonly ear: Ear,
  ) {
    this.#deaf = !notify;
  }

  /** Somebody waits. May be repeated: where there was no connection, there may be one now. */
  open(): void {
    clearTimeout(this.#resting);
    this.#resting = undefined;
    if (this.#deaf) return;
    if (this.local.any) this.#share(this.local.listener);
    else if (!this.#own && this.database.spare > 0) this.#listen();
  }

  /** Nobody waits. */
  rest(): void {
    this.#share(undefined);
    if (this.#own) this.#resting ??= setTimeout(() => void this.#hangUp(), LINGER_MS).unref();
  }

  async close(): Promise<void> {
    this.#deaf = true;
    clearTimeout(this.#resting);
    this.#share(undefined);
    await this.#hangUp();
  }

  #share(listener: Listener | undefined): void {
    if (this.#shared === listener) return;
    this.#shared?.remove(this.#channel);
    this.#shared = listener;
    listener?.add(this.#channel, this.ear);
  }

  #listen(): void {
    const { database, ear } = this;
    database.reserve(1);
    this.#own = new Listener({
      config: database.listenConfig ?? database.config,
      chosen: database.listenConfig !== undefined,
      channel: this.#channel,
      onNotify: (payload) => ear.onNotify(payload),
      onConnect: () => ear.onConnect(),
      onPooler: () => {
        this.#deaf = true;
        void this.#hangUp();
      },
    });
    this.#own.start();
  }

  async #hangUp(): Promise<void> {
    const own = this.#own;
    this.#own = undefined;
    this.#resting = undefined;
    if (!own) return;
    await own.close();
    this.database.reserve(-1);
  }

  get #channel(): string {
    return answeredChannel(this.database.schema);
  }
}
