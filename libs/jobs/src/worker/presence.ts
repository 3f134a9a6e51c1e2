import { hostname } from "node:os";
import type { Store } from "../store/store.js";
import {
  type WorkerCard,
  beat,
  register,
  retire,
  sayKeptFinished,
} from "../store/workers/workers.js";

// What the database knows of this process: the row of its worker id, kept fresh while it works.

const BEAT_MS = 15_000;

export interface PresencePorts {
  store: Store;
  /** By queue, the kinds that it has handlers for. */
  kinds: Record<string, string[]>;
  slots: number;
  keepFinishedMs: number;
  /** The id that its claims carry now. */
  id(): number | undefined;
  /** Gets one, which registers this process. */
  identify(): Promise<void>;
  /** How many bodies run, and how many attempts were lost. */
  running(): number;
  lost(): number;
  /** The row of this process is gone: it was silent for days. */
  forgotten(): void;
  /** A beat has come. */
  beats(): void;
}

export class Presence {
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly ports: PresencePorts) {}

  /** @returns a fresh worker id */
  async register(): Promise<number> {
    return await register(this.ports.store.session, this.#card());
  }

  start(): void {
    clearTimeout(this.#timer);
    this.#identify();
    this.#timer = setTimeout(() => {
      const { ports } = this;
      const id = ports.id();
      if (id !== undefined)
        beat(ports.store.session, id, ports.running(), ports.lost()).then(
          // Stopped for days and gone on: job.transaction() asks whether this id is of this database.
          (known) => void (!known && ports.id() === id && ports.forgotten()),
          () => undefined,
        );
      ports.beats();
      this.start();
    }, BEAT_MS).unref();
  }

  /** It is there, whether it has something to do or not; after a lost connection under a new id. */
  #identify(): void {
    if (this.ports.id() === undefined) this.ports.identify().catch(() => undefined);
  }

  /** How long it was told to keep what is finished; said once the schema has room for it. */
  async sayKeptFinished(): Promise<void> {
    const { ports } = this;
    const id = ports.id();
    if (id !== undefined) await sayKeptFinished(ports.store.session, id, ports.keepFinishedMs);
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    const { ports } = this;
    const id = ports.id();
    if (id !== undefined)
      await retire(ports.store.session, id, ports.lost()).catch(() => undefined);
  }

  #card(): WorkerCard {
    const { store, kinds, slots, keepFinishedMs } = this.ports;
    return {
      host: hostname(),
      pid: process.pid,
      kinds,
      slots,
      ...(store.has(2) ? { keepFinishedMs } : {}),
    };
  }
}
