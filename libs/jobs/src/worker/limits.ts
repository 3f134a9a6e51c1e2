import { monotonic } from "./held.js";
import type { LimitedClaimRequest, LimitedClaims } from "../store/transitions/claim-limited.js";

// What one process knows of the limits of a queue. The database counts; this is what its next claim tells it and asks it.

/** A claim that met jobs whose key has no room is followed by one that looks at more of them, to have done with them. */
const DEEPER = 4;
const DEEPEST = 500;
/** Another process may have made room, and nobody says so. */
const AGAIN_MS = 500;
/** A queue with limits is claimed from by one at a time. */
const BUSY_MS = 0.5;
const MOST_BUSY_MS = 8;
/** The more often another one is at it, the longer claims are left to gather room: fewer and larger ones cost less. */
const REST_MS = 1;
const MOST_REST_MS = 10;
const MORE_REST = 2;
const LESS_REST = 0.98;
/** What has run for so long is not expected to be over in a moment. */
const LONG_MS = 1_000;
/** Until the gate is open. */
const CLOSED_MS = 250;

export class QueueLimits {
  /** When the jobs of this process came, oldest first. */
  readonly #held = new Map<string, number>();
  /** Jobs of this process that are over, of which no claim has told yet. */
  #over: string[] = [];
  #depth = 0;
  /** What the last answer said of the slots, under which worker id: it holds as long as the connection does. */
  #since: { worker: number; seq: string } | undefined;
  #busy = 0;
  #restMs = 0;
  /** Somebody rests: something is over. */
  #rested: (() => void) | undefined;
  #againAt: number | undefined;
  #reached = false;

  /** In so many ms another claim is worth while, unasked; undefined: no limit kept a job from starting. */
  get againMs(): number | undefined {
    return this.#againAt === undefined ? undefined : Math.max(0, this.#againAt - monotonic());
  }

  /** Nothing can start until something is over, here or elsewhere; what waits for its rate only can start soon. */
  get reached(): boolean {
    return this.#reached;
  }

  /** A job is held from now on. */
  began(id: string): void {
    this.#held.set(id, monotonic());
  }

  /** A job of this process is over: its slot is free as soon as a claim has said so. */
  ended(id: string): void {
    this.#held.delete(id);
    this.#over.push(id);
    this.#reached = false;
    this.#rested?.();
  }

  /** How long to wait before the next claim. */
  get restMs(): number {
    if (this.#busy > 0)
      return Math.min(BUSY_MS * 2 ** this.#busy, MOST_BUSY_MS) * (0.5 + Math.random());
    return this.#restMs < REST_MS ? 0 : this.#restMs;
  }

  /** Waits so long; no longer than until there is room enough, unless another one is at it. */
  async rest(roomEnough: () => boolean): Promise<void> {
    const ms = this.restMs;
    const enough = () => this.#busy === 0 && roomEnough();
    if (ms === 0 || enough()) return;
    await new Promise<void>((resolve) => {
      const over = () => {
        clearTimeout(timer);
        this.#rested = undefined;
        resolve();
      };
      const timer = setTimeout(over, ms);
      this.#rested = () => enough() && over();
    });
  }

  /** How many jobs have gone on for so long that a rest does not wait for them. */
  get long(): number {
    const before = monotonic() - LONG_MS;
    let count = 0;
    for (const since of this.#held.values()) {
      if (since > before) break;
      count++;
    }
    return count;
  }

  /** The last claim was refused: another one was under way. */
  get refused(): boolean {
    return this.#busy > 0;
  }

  get hasEnded(): boolean {
    return this.#over.length > 0;
  }

  /** What the next claim says besides its lanes; what it tells is told. */
  request(
    room: number,
    worker: number,
    pooled: boolean,
  ): Pick<LimitedClaimRequest, "over" | "depth" | "since"> {
    const over = this.#over;
    this.#over = [];
    const known = pooled || this.#since?.worker !== worker ? undefined : this.#since;
    return {
      over,
      depth: Math.max(room, this.#depth, Math.min(over.length, DEEPEST)),
      since: known?.seq ?? "0",
    };
  }

  /** Such a claim wrote nothing: what it was to tell is told by the next one. */
  untold(over: readonly string[]): void {
    this.#over = [...over, ...this.#over];
    this.#depth = 0;
  }

  learn({ refused, since, parked, blocked, waitMs }: LimitedClaims, worker: number): void {
    this.#againAt = undefined;
    if (refused === "busy") {
      this.#busy++;
      this.#restMs = Math.min(MOST_REST_MS, Math.max(REST_MS, this.#restMs * MORE_REST));
      return;
    }
    this.#busy = 0;
    this.#restMs *= LESS_REST;
    if (refused === "closed") {
      this.#againAt = monotonic() + CLOSED_MS;
      return;
    }
    this.#since = { worker, seq: since };
    this.#depth = Math.min(DEEPEST, DEEPER * parked);
    this.#reached = blocked && waitMs === undefined;
    const waits = [...(blocked ? [AGAIN_MS] : []), ...(waitMs === undefined ? [] : [waitMs + 1])];
    if (waits.length > 0) this.#againAt = monotonic() + Math.min(...waits);
  }
}
