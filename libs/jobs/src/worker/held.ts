import { hrtime } from "node:process";
import type { Claim } from "../store/transitions/claim.js";

// What this process holds, in memory shared with the renewing thread: plain writes on the hot path, no
// message per job, and the thread still knows it when the main thread is blocked. A slot's version is odd
// while it is written, so that the thread never renews half of one job and half of another.

/**
 * Words of 8 bytes: a header (when the main thread last turned, and how many leases the other one has renewed), then the
 * slots. `renewer.thread.mjs` reads the same layout.
 */
export const LAYOUT = {
  renewals: 1,
  header: 2,
  stride: 8,
  version: 0,
  id: 1,
  queue: 2,
  attempt: 3,
  worker: 4,
  until: 5,
  renewedAt: 6,
} as const;

/** In `until`: not started yet; renewed as long as the main thread turns. */
const WAITING = 0;

const [seconds, nanoseconds] = hrtime();
/** From the clock of this thread, which is quicker to read, to that of the machine. */
const AHEAD_MS = seconds * 1e3 + nanoseconds / 1e6 - performance.now();

/** Monotonic ms, the same in every thread. */
export const monotonic = (): number => performance.now() + AHEAD_MS;

export class Held {
  readonly memory: SharedArrayBuffer;
  readonly #numbers: Float64Array;
  readonly #integers: BigInt64Array;
  readonly #free: number[] = [];

  constructor(readonly capacity: number) {
    this.memory = new SharedArrayBuffer((LAYOUT.header + capacity * LAYOUT.stride) * 8);
    this.#numbers = new Float64Array(this.memory);
    this.#integers = new BigInt64Array(this.memory);
    for (let slot = capacity - 1; slot >= 0; slot--) this.#free.push(slot);
    this.tick();
  }

  /** The main thread turns. */
  tick(): void {
    this.#numbers[0] = monotonic();
  }

  /** From now on this claim is renewed; `since` is when the claim was sent. */
  hold(claim: Claim, since: number): number {
    const slot = this.#free.pop();
    if (slot === undefined) throw new Error("more claims than slots");
    this.#write(slot, claim, WAITING, since);
    return slot;
  }

  /** A newer attempt of a job that is held already. */
  adopt(slot: number, claim: Claim, until: number, since: number): void {
    this.#write(slot, claim, until, since);
  }

  /** It has started: renew until then, and no longer. */
  start(slot: number, until: number): void {
    this.#numbers[this.#at(slot) + LAYOUT.until] = until;
  }

  /** When its lease was last set, in monotonic ms. */
  renewedAt(slot: number): number {
    return this.#numbers[this.#at(slot) + LAYOUT.renewedAt]!;
  }

  /** How many leases the thread has renewed; a new thread goes on counting. */
  get renewals(): number {
    return this.#numbers[LAYOUT.renewals]!;
  }

  release(slot: number): void {
    const at = this.#at(slot);
    Atomics.add(this.#integers, at + LAYOUT.version, 1n);
    this.#integers[at + LAYOUT.id] = 0n;
    Atomics.add(this.#integers, at + LAYOUT.version, 1n);
    this.#free.push(slot);
  }

  #write(slot: number, claim: Claim, until: number, since: number): void {
    const at = this.#at(slot);
    Atomics.add(this.#integers, at + LAYOUT.version, 1n);
    this.#integers[at + LAYOUT.id] = BigInt(claim.id);
    this.#numbers[at + LAYOUT.queue] = claim.queueId;
    this.#numbers[at + LAYOUT.attempt] = claim.attempt;
    this.#numbers[at + LAYOUT.worker] = claim.worker;
    this.#numbers[at + LAYOUT.until] = until;
    this.#numbers[at + LAYOUT.renewedAt] = since;
    Atomics.add(this.#integers, at + LAYOUT.version, 1n);
  }

  #at(slot: number): number {
    return LAYOUT.header + slot * LAYOUT.stride;
  }
}
