// Whether claims of a queue are worth while, as the last ones tell.
//
// Hints come at most one per 10 ms and process. Where jobs trickle in faster than that, those after the first would wait
// for the next hint: so as long as they do, claims are made a little apart, unasked. A queue with a job now and then, or
// with a backlog, never gets here.
//
// Where many processes serve a queue, most claims come too late, and each hint would make all of them claim: the more
// claims have been in vain, the longer a process waits, each for a time of its own, so that some one is always early.

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
/** A claim that brought something makes up for so many in vain. */
const WORTH = 2;
const MOST_IN_VAIN = 12;
/** What was so long ago says nothing any more. */
const FORGET_MS = 100;
const MAX_WAIT_MS = 64;

/** Whether jobs trickle into one queue, as its claims tell. */
export class Trickle {
  #broughtAt = Number.NEGATIVE_INFINITY;
  #pauseMs: number | undefined;
  /** More claims than those that were worth it have brought nothing of late. */
  #inVain = 0;
  #learntAt = Number.NEGATIVE_INFINITY;

  /** What a claim has brought, and what it took. */
  learn(jobs: number, costMs: number, now: number): void {
    const together = now - this.#broughtAt < TOGETHER_MS;
    if (jobs > 0) this.#broughtAt = now;
    const before = now - this.#learntAt > FORGET_MS ? 0 : this.#inVain;
    this.#learntAt = now;
    this.#inVain = jobs > 0 ? Math.max(0, before - WORTH) : Math.min(before + 1, MOST_IN_VAIN);
    if (!together) this.#pauseMs = undefined;
    else if (jobs > 0) this.#pauseMs = Math.max(pauseAfter(jobs, costMs), this.#inVain);
    else if (this.#pauseMs !== undefined && this.#inVain > IN_MIDST) this.#pauseMs *= 2;
  }

  /** How long to wait before a hint is followed. */
  waitMs(now: number, random: () => number): number {
    if (this.#inVain <= IN_MIDST || now - this.#learntAt > FORGET_MS) return 0;
    return random() * Math.min(2 ** this.#inVain, MAX_WAIT_MS);
  }

  /** In so many ms a claim is likely to bring something; undefined: only a hint or a look can tell. */
  get pauseMs(): number | undefined {
    return this.#pauseMs;
  }
}

const pauseAfter = (jobs: number, costMs: number): number =>
  Math.max(PAUSE_MS, PAUSE_PER_COST * costMs, Math.min(PAUSE_PER_JOB * jobs, MAX_PAUSE_MS));
