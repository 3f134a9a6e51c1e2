import { monotonic } from "./held.js";

// A claim loop that stands still although the database answers. Whatever it waits for has a limit of its own, so it cannot
// happen; should it all the same, its connection is replaced, which ends each wait, and if that does not help somebody else
// has to end the process.

/** Longer than any statement of the loop may take, its connection included. */
const STILL_MS = 15_000;
/** After so many repairs in vain it says that it is stuck. */
const MOST_REPAIRS = 2;

export interface WatchdogPorts {
  /** Since when the turn goes on that is under way; undefined: none is. Monotonic ms. */
  turnSince(): number | undefined;
  /** Whether the database answers another connection. */
  answers(): Promise<boolean>;
  /** Replaces the connection of the loop: what waits there fails, and is tried again. */
  repair(): void;
  log(level: "log" | "warn" | "error", message: string, params?: object): void;
}

export class Watchdog {
  /** It stands still, and could not be repaired. */
  stuck = false;
  #repairs = 0;
  #repairedAt = Number.NEGATIVE_INFINITY;
  #asking = false;

  constructor(private readonly ports: WatchdogPorts) {}

  /** To be called at each tick of the poll timer. */
  async look(now = monotonic()): Promise<void> {
    if (this.#asking) return;
    const since = this.ports.turnSince();
    if (since === undefined || now - since < STILL_MS) return this.#goesOn(now);
    if (now - this.#repairedAt < STILL_MS) return;
    this.#asking = true;
    try {
      // A database that is away is waited for. Meanwhile an answer that this process was too busy to read has come.
      if (!(await this.ports.answers()) || this.ports.turnSince() !== since) return;
      this.#repair(now, since);
    } finally {
      this.#asking = false;
    }
  }

  #repair(now: number, since: number): void {
    const { ports } = this;
    const params = { stillMs: Math.round(now - since), repairs: this.#repairs };
    if (this.#repairs < MOST_REPAIRS)
      ports.log(
        "warn",
        "the claim loop stands still although the database answers; its connection is replaced",
        params,
      );
    else if (!this.stuck) {
      this.stuck = true;
      ports.log(
        "error",
        "the claim loop stands still and could not be repaired: /livez fails, restart this process",
        params,
      );
    }
    this.#repairs++;
    this.#repairedAt = now;
    ports.repair();
  }

  /** A turn has ended since: not the one that the repair has ended, but one that began after it. */
  #goesOn(now: number): void {
    if (this.#repairs === 0 || now - this.#repairedAt < STILL_MS) return;
    this.ports.log("log", "the claim loop goes on");
    this.#repairs = 0;
    this.stuck = false;
  }
}
