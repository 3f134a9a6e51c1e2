// Hints come at most one per 10 ms and process. Where jobs trickle in faster than that, those after the first would wait
// for the next hint: so as long as they do, claims are made a little apart, unasked. A queue with a job now and then, or
// with a backlog, never gets here.

/** Claims that bring something so soon after one another are a trickle. */
const TOGETHER_MS = 20;
const PAUSE_MS = 1;
/** A dear claim is made the more seldom: claims take half of the time at most. */
const PAUSE_PER_COST = 1;
/** Where more than ten come in a ms it is no trickle: the more a claim brings, the less each job of it costs. */
const PAUSE_PER_JOB = 0.1;
const MAX_PAUSE_MS = 10;
/** So many claims in vain happen in the midst of it. */
const IN_MIDST = 2;

/** Whether jobs trickle into one queue, as its claims tell. */
export class Trickle {
  #broughtAt = Number.NEGATIVE_INFINITY;
  #pauseMs: number | undefined;
  /** Claims in a row that brought nothing. */
  #inVain = 0;

  /** What a claim has brought, and what it took. */
  learn(jobs: number, costMs: number, now: number): void {
    const together = now - this.#broughtAt < TOGETHER_MS;
    if (jobs > 0) this.#broughtAt = now;
    if (!together) this.#pauseMs = undefined;
    else if (jobs > 0) this.#pauseMs = pauseAfter(jobs, costMs);
    else if (this.#pauseMs !== undefined && this.#inVain >= IN_MIDST) this.#pauseMs *= 2;
    this.#inVain = jobs === 0 ? this.#inVain + 1 : 0;
  }

  /** In so many ms a claim is likely to bring something; undefined: only a hint or a look can tell. */
  get pauseMs(): number | undefined {
    return this.#pauseMs;
  }
}

const pauseAfter = (jobs: number, costMs: number): number =>
  Math.max(PAUSE_MS, PAUSE_PER_COST * costMs, Math.min(PAUSE_PER_JOB * jobs, MAX_PAUSE_MS));
