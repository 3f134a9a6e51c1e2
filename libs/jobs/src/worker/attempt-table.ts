import type { Attempt } from "./attempt.js";

/** Ids ascend: the last digits tell those apart that are held together. */
const BUCKETS = 4_096;
const DIGITS = 6;
const NONE = -1;

/**
 * The attempts that are held, by their slots and by their jobs. No Map: V8 makes the table of one anew again and again,
 * each keeps pointing at the next one, and once one of them is in the old generation all that ever stood in those after it
 * stays until a full collection ([ADR 12](../../../../docs/adr/0012-what-v8-keeps.md)).
 */
export class AttemptTable {
  readonly #bySlot: (Attempt | undefined)[] = [];
  /** The slot of the first attempt of each bucket, and of each slot the next one. */
  readonly #first = new Int32Array(BUCKETS).fill(NONE);
  readonly #next: number[] = [];

  at(slot: number): Attempt | undefined {
    return this.#bySlot[slot];
  }

  /** The newest attempt of a job; once it is over the one before, as long as the end of that is not written. */
  find(queueId: number, id: string): Attempt | undefined {
    for (let slot = this.#first[bucketOf(id)]!; slot !== NONE; slot = this.#next[slot]!) {
      const attempt = this.#bySlot[slot]!;
      if (attempt.claim.id === id && attempt.claim.queueId === queueId) return attempt;
    }
    return undefined;
  }

  /** It has a slot; of its job it is found before those that were there. */
  add(attempt: Attempt): void {
    const bucket = bucketOf(attempt.claim.id);
    this.#bySlot[attempt.slot] = attempt;
    this.#next[attempt.slot] = this.#first[bucket]!;
    this.#first[bucket] = attempt.slot;
  }

  remove({ slot, claim }: Attempt): void {
    const bucket = bucketOf(claim.id);
    const after = this.#next[slot]!;
    let one = this.#first[bucket]!;
    if (one === slot) this.#first[bucket] = after;
    for (; one !== NONE; one = this.#next[one]!)
      if (this.#next[one] === slot) this.#next[one] = after;
    this.#bySlot[slot] = undefined;
  }

  *[Symbol.iterator](): Generator<Attempt> {
    for (const attempt of this.#bySlot) if (attempt) yield attempt;
  }
}

function bucketOf(id: string): number {
  let number = 0;
  for (let at = Math.max(0, id.length - DIGITS); at < id.length; at++)
    number = number * 10 + id.charCodeAt(at);
  return number % BUCKETS;
}
