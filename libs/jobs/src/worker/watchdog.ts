import { monotonic } from "./held.js";

// A claim loop that stands still although the database answers. Whatever it waits for has a limit of its own, so it cannot
// happen; should it all the same, its connections are replaced, which ends each wait on them, and if that does not help
// somebody else has to end the process.

/** Longer than any statement of the loop may take, its connection included. */
const STILL_MS = 15_000;
/** After so many repairs in vain it says that it is stuck. */
const MOST_REPAIRS = 2;
/** A database that is there answers within this time. */
const ANSWER_MS = 2_000;

/** A connection that the loop waits for. */
export interface LoopConnection {
  /** For how many ms what is under way there has done nothing, beyond what its statement may take. */
  readonly hangsFor: number;
  /** Whether it answers within so many ms, in line with what is under way there. */
  answers(ms: number): Promise<boolean>;
  /** Replaces it: what waits there fails, and is tried again. */
  restart(why: Error): void;
}

export interface WatchdogPorts {
  /** Since when the step goes on that is under way; undefined: none is. Monotonic ms. */
  turnSince(): number | undefined;
  claims: LoopConnection;
  front: LoopConnection;
  /** Whether the database answers another connection within so many ms. */
  answers(ms: number): Promise<boolean>;
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
    const turnMs = since === undefined ? 0 : now - since;
    const stillMs = Math.max(turnMs, ...this.#connections.map(({ hangsFor }) => hangsFor));
    if (stillMs < STILL_MS) return this.#goesOn(now);
    if (now - this.#repairedAt < STILL_MS) return;
    this.#asking = true;
    try {
      // A database that is away is waited for. Meanwhile an answer that this process was too busy to read has come.
      if (!(await this.ports.answers(ANSWER_MS))) return;
      const hanging = this.#connections.filter(({ hangsFor }) => hangsFor >= STILL_MS);
      if (hanging.length > 0) return this.#repair(now, stillMs, hanging);
      // It may wait in line behind others' statements, each of which has its limit.
      if (turnMs < STILL_MS || !(await this.#served()) || this.ports.turnSince() !== since) return;
      this.#repair(now, stillMs, [this.ports.claims]);
    } finally {
      this.#asking = false;
    }
  }

  get #connections(): LoopConnection[] {
    return [this.ports.claims, this.ports.front];
  }

  async #served(): Promise<boolean> {
    const answered = await Promise.all(this.#connections.map((one) => one.answers(ANSWER_MS)));
    return answered.every(Boolean);
  }

  #repair(now: number, stillMs: number, hanging: readonly LoopConnection[]): void {
    const { ports } = this;
    const params = { stillMs: Math.round(stillMs), repairs: this.#repairs };
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
    for (const connection of hanging) connection.restart(new Error("the claim loop stood still"));
  }

  /** A turn has ended since: not the one that the repair has ended, but one that began after it. */
  #goesOn(now: number): void {
    if (this.#repairs === 0 || now - this.#repairedAt < STILL_MS) return;
    this.ports.log("log", "the claim loop goes on");
    this.#repairs = 0;
    this.stuck = false;
  }
}
