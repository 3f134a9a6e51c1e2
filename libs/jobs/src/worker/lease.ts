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
  trouble?: string;
  needPassword?: true;
}

const TICK_MS = 1_000;

/** The leases of this process: keeps them in shared memory and a thread that renews them. */
export class Lease {
  readonly held: Held;
  readonly #thread: Thread;
  /** Also when it has died before. */
  readonly #gone: Promise<void>;
  readonly #ticker: NodeJS.Timeout;
  #stopped = false;

  constructor(
    database: Database,
    /** For how long a claim is ours without renewal. */
    readonly ms: number,
    capacity: number,
    onLost: (lost: LostClaim) => void,
    onTrouble: (message: string) => void,
  ) {
    this.held = new Held(capacity);
    const { password } = database.config;
    const asksPassword = typeof password === "function";
    this.#thread = new Thread(new URL("./renewer.thread.mjs", import.meta.url), {
      workerData: {
        memory: this.held.memory,
        layout: LAYOUT,
        capacity,
        leaseMs: ms,
        config: plain(database.config),
        asksPassword,
        renewSql: renewLeases.text(database.schema),
        stillHeldSql: stillHeld.text(database.schema),
      },
      resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 },
    });
    this.#thread.unref();
    this.#gone = new Promise((resolve) => this.#thread.once("exit", () => resolve()));
    this.#thread.on("message", (message: ThreadMessage) => {
      message.lost?.forEach(onLost);
      if (message.trouble !== undefined) onTrouble(message.trouble);
      if (message.needPassword && asksPassword) void this.#answerPassword(password);
    });
    this.#thread.on("error", (error) =>
      onTrouble(`the renewing thread has died: ${error.message}`),
    );
    this.#ticker = setInterval(() => this.held.tick(), TICK_MS).unref();
  }

  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    clearInterval(this.#ticker);
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
function plain(config: object): object {
  return Object.fromEntries(
    Object.entries(config)
      .filter(([, value]) => typeof value !== "function")
      .map(([name, value]) => [name, isRecord(value) ? plain(value) : value]),
  );
}

const isRecord = (value: unknown): value is object =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
