import { hostname } from "node:os";
import { LoopDelay } from "../observe/loop-delay.js";
import type { Store } from "../store/store.js";
import {
  type ProcessVitals,
  type RunningJob,
  VITALS_SINCE,
  type WorkerCard,
  beat,
  register,
  retire,
  sayKeptFinished,
} from "../store/workers/workers.js";

// What the database knows of this process: the row of its worker id, kept fresh while it works.

const BEAT_MS = 15_000;
/** So many of the jobs that run are told of. */
const MOST_CURRENT = 20;

export interface PresencePorts {
  store: Store;
  /** By queue, the kinds that it has handlers for. */
  kinds: Record<string, string[]>;
  slots: number;
  keepFinishedMs: number;
  /** Of this package. */
  release: string | null;
  /** The id that its claims carry now. */
  id(): number | undefined;
  /** Gets one, which registers this process. */
  identify(): Promise<void>;
  /** How many bodies run, and how many attempts were lost. */
  running(): number;
  lost(): number;
  /** Those of the bodies that have run the longest, so many. */
  current(most: number): RunningJob[];
  /** The row of this process is gone: it was silent for days. */
  forgotten(): void;
  /** A beat has come. */
  beats(): void;
}

export class Presence {
  #timer: NodeJS.Timeout | undefined;
  #delay: LoopDelay | undefined;

  constructor(private readonly ports: PresencePorts) {}

  /** @returns a fresh worker id */
  async register(): Promise<number> {
    return await register(this.ports.store.session, this.#card());
  }

  start(): void {
    clearTimeout(this.#timer);
    this.#delay ??= new LoopDelay(0);
    this.#identify();
    this.#timer = setTimeout(() => {
      const { ports } = this;
      const id = ports.id();
      if (id !== undefined)
        beat(ports.store.session, id, ports.running(), ports.lost(), this.#vitals()).then(
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
    this.#delay?.stop();
    const { ports } = this;
    const id = ports.id();
    if (id !== undefined)
      await retire(ports.store.session, id, ports.lost()).catch(() => undefined);
  }

  /** Undefined where the schema has no room for them. */
  #vitals(): ProcessVitals | undefined {
    const { ports } = this;
    if (!ports.store.has(VITALS_SINCE)) return undefined;
    const p99 = this.#delay?.read().p99;
    const loopDelayMs = p99 === undefined ? null : Math.round(p99 * 10_000) / 10;
    return { release: ports.release, loopDelayMs, current: ports.current(MOST_CURRENT) };
  }

  #card(): WorkerCard {
    const { store, kinds, slots, keepFinishedMs } = this.ports;
    const vitals = this.#vitals();
    return {
      host: hostname(),
      pid: process.pid,
      kinds,
      slots,
      ...(store.has(2) ? { keepFinishedMs } : {}),
      ...(vitals ? { vitals } : {}),
    };
  }
}
