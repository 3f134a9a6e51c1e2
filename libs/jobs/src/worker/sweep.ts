// A search of what lies behind the cursor, in slices. While a snapshot is held, the rows of finished jobs stay in the
// index; to walk them all in one statement takes the longer, the longer it is held, up to where no statement is allowed
// to. So a search goes back from the place where claims are, each slice as long as it can be walked in a few ms; beyond
// the time of the snapshot there is nothing to walk, and one slice reaches back for years.

const FIRST_SLICE_MS = 1_000;
const LEAST_SLICE_MS = 1;
/** A thousand years: there is nothing before. */
const END_MS = 3.156e13;
const QUICK_MS = 2;
const SLOW_MS = 20;
const MUCH_LONGER = 16;
const LONGER = 2;
const SHORTER = 4;

/** A place in the order of a lane. */
export interface Position {
  at: string;
  id: string;
}

export class Sweep {
  /** What all of its slices have taken. */
  walkedMs = 0;
  /** When its next slice may be walked. */
  dueAt = Number.NEGATIVE_INFINITY;
  #nearMs = 0;
  #sliceMs = FIRST_SLICE_MS;
  /** What the slice before took, if it was slow. */
  #slowMs: number | undefined;

  constructor(
    /** Where it begins to go back. */
    readonly from: Position,
    readonly beganAt: number,
  ) {}

  /**
   * The slice that is next: so far behind its beginning, from and to. The first one goes on up to now: the lease of
   * another process may have run out before the place where our claims are.
   */
  get slice(): { backMs: number; untilMs: number } {
    return {
      backMs: Math.min(this.#nearMs + this.#sliceMs, END_MS),
      untilMs: this.#first ? -END_MS : this.#nearMs,
    };
  }

  get #first(): boolean {
    return this.#nearMs === 0;
  }

  /**
   * The slice was walked in so many ms, `full`: it may hold more than was taken. Then it is walked again, but for the
   * first one, whose end is where jobs come all the time. Answers whether it was the last one.
   */
  walked(walkMs: number, full: boolean): boolean {
    this.walkedMs += walkMs;
    if (full && !this.#first) return false;
    this.#nearMs += this.#sliceMs;
    if (walkMs > SLOW_MS) this.#slow(walkMs);
    else {
      this.#sliceMs *= walkMs < QUICK_MS ? MUCH_LONGER : LONGER;
      this.#slowMs = undefined;
    }
    return this.#nearMs >= END_MS;
  }

  /** The slice took too long and was cancelled. One moment may hold more than can be walked: it is left out. */
  gaveUp(): void {
    if (this.#sliceMs <= LEAST_SLICE_MS) this.#nearMs += this.#sliceMs;
    this.#shorten();
  }

  /** A shorter one that takes as long says that it is not the walk that takes it. */
  #slow(walkMs: number): void {
    const inVain = this.#slowMs !== undefined && walkMs > this.#slowMs / 2;
    this.#slowMs = inVain ? undefined : walkMs;
    if (inVain) this.#sliceMs *= MUCH_LONGER;
    else this.#shorten();
  }

  #shorten(): void {
    this.#sliceMs = Math.max(LEAST_SLICE_MS, this.#sliceMs / SHORTER);
  }
}
