import type { Attempt } from "./attempt.js";

/** Attempts whose bodies run: a list in which each knows its place. Why it is no Set, see {@link AttemptTable}. */
export class Bodies {
  readonly #all: Attempt[] = [];

  get size(): number {
    return this.#all.length;
  }

  has(attempt: Attempt): boolean {
    return attempt.bodyAt !== -1;
  }

  add(attempt: Attempt): void {
    if (this.has(attempt)) return;
    attempt.bodyAt = this.#all.push(attempt) - 1;
  }

  delete(attempt: Attempt): void {
    if (!this.has(attempt)) return;
    const last = this.#all.pop()!;
    if (last !== attempt) {
      last.bodyAt = attempt.bodyAt;
      this.#all[last.bodyAt] = last;
    }
    attempt.bodyAt = -1;
  }

  /** Those of now, in any order: whoever goes through them may end some. */
  [Symbol.iterator](): Iterator<Attempt> {
    return [...this.#all].values();
  }
}
