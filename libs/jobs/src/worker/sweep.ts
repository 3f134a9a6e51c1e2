// A search of what lies behind the cursor, in slices. While a snapshot is held, the rows of finished jobs stay in the
// index; to walk them all in one statement takes the longer, the longer it is held, up to where no statement is allowed
// to. So a search goes back from the place where claims are, each slice as long as it can be walked in a few ms; beyond
// the time of the snapshot there is nothing to walk, and one slice reaches back for years.

const FIRST_SLICE_MS = 1_000;
const LEAST_SLICE_MS = 1;
/** A thousand years: there is nothing before. */
const END_MS = 3.156e13;
/** A slice that is walked so soon is followed by a longer one; one that takes so long by a shorter one. */
const QUICK_MS = 2;
const SLOW_MS = 20;
const LONGER = 16;
const SHORTER = 4;

/** A place in the order of a lane. */
export interface Position {
  at: string;
  id: string;
}

export class Sweep {
  #nearMs = 0;
  #sliceMs = FIRST_SLICE_MS;

  /** @param from where it begins to go back. */
  constructor(readonly from: Position) {}

  /** The slice that is next: so far behind its beginning, from and to. */
  get slice(): { backMs: number; untilMs: number } {
    return { backMs: Math.min(this.#nearMs + this.#sliceMs, END_MS), untilMs: this.#nearMs };
  }

  /** The slice was walked in so many ms; answers whether it was the last one. */
  walked(costMs: number): boolean {
    this.#nearMs += this.#sliceMs;
    if (costMs < QUICK_MS) this.#sliceMs *= LONGER;
    else if (costMs > SLOW_MS) this.#shorten();
    return this.#nearMs >= END_MS;
  }

  /** The slice took too long and was cancelled. One moment may hold more than can be walked: it is left out. */
  gaveUp(): void {
    if (this.#sliceMs <= LEAST_SLICE_MS) this.#nearMs += this.#sliceMs;
    this.#shorten();
  }

  #shorten(): void {
    this.#sliceMs = Math.max(LEAST_SLICE_MS, this.#sliceMs / SHORTER);
  }
}
