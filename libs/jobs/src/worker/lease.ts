import { Worker as Thread } from "node:worker_threads";
import type { Database } from "../pg/database.js";
import { renewLeases, stillHeld } from "../store/transitions/renew.js";
import { Held, LAYOUT } from "./held.js";

/** A claim that turned out not to be ours any more. */
export interface LostClaim {
  slot: number;
  id: string;
  attempt: number;
  worker: number;
}

interface ThreadMessage {
  lost?: LostClaim[];
  trouble?: { message: string; code?: string; severity?: string };
  needPassword?: true;
}

const TICK_MS = 1_000;
const BEGIN_AGAIN_MS = 1_000;

/** The leases of this process: keeps them in shared memory and a thread that renews them. */
export class Lease {
  readonly held: Held;
  #thread!: Thread;
  /** Also when it has died before. */
  #gone!: Promise<void>;
  #again: NodeJS.Timeout | undefined;
  readonly #ticker: NodeJS.Timeout;
  #stopped = false;

  constructor(
    database: Database,
    /** For how long a claim is ours without renewal. */
    readonly ms: number,
    capacity: number,
    onLost: (lost: LostClaim) => void,
    onTrouble: (error: Error) => void,
  ) {
    this.held = new Held(capacity);
    const { password } = database.config;
    const asksPassword = typeof password === "function";
    const workerData = {
      memory: this.held.memory,
      layout: LAYOUT,
      capacity,
      leaseMs: ms,
      config: plain(database.config),
      asksPassword,
      renewSql: renewLeases.text(database.schema),
      stillHeldSql: stillHeld.text(database.schema),
    };
    const begin = () => {
      const thread = new Thread(new URL("./renewer.thread.mjs", import.meta.url), {
        workerData,
        resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 },
      });
      thread.unref();
      thread.on("message", (message: ThreadMessage) => {
        message.lost?.forEach(onLost);
        const { trouble } = message;
        if (trouble) onTrouble(Object.assign(new Error(trouble.message), trouble));
        if (message.needPassword && asksPassword) void this.#answerPassword(password);
      });
      thread.on("error", (error) =>
        onTrouble(new Error(`the renewing thread has died: ${error.message}`)),
      );
      // Without it every job would be run twice: it begins again, and finds what is held where it was.
      this.#gone = new Promise((resolve) =>
        thread.once("exit", () => {
          if (!this.#stopped) this.#again = setTimeout(begin, BEGIN_AGAIN_MS).unref();
          resolve();
        }),
      );
      this.#thread = thread;
    };
    begin();
    this.#ticker = setInterval(() => this.held.tick(), TICK_MS).unref();
  }

  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    clearInterval(this.#ticker);
    clearTimeout(this.#again);
    this.#thread.postMessage({ stop: true });
    const late = setTimeout(() => void this.#thread.terminate(), 1_000);
    await this.#gone;
    clearTimeout(late);
  }

  /** A failure goes to the thread, which tries again: here nobody would catch it. */
  async #answerPassword(password: () => string | Promise<string>): Promise<void> {
    try {
      this.#thread.postMessage({ password: await password() });
    } catch (error) {
      this.#thread.postMessage({ noPassword: (error as Error | null)?.message ?? String(error) });
    }
  }
}

/** Functions cannot cross to a thread. */
export function plain(config: object): object {
  // pg hides passwords and TLS keys from enumeration, so that they are not logged.
  const all = Object.getOwnPropertyNames(config).map((name): [string, unknown] => [
    name,
    (config as Record<string, unknown>)[name],
  ]);
  return Object.fromEntries(
    all
      .filter(([, value]) => typeof value !== "function")
      .map(([name, value]) => [name, isRecord(value) ? plain(value) : value]),
  );
}

const isRecord = (value: unknown): value is object =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
