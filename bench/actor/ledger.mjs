import { now } from "./clock.mjs";

/** A pause of the worker that is no work: a poll interval, a backoff that cannot be turned off. */
const STALL_MS = 250;

/** What the handlers themselves have seen: how often each job was run, and when the first and the last began. */
export class Ledger {
  count = 0;
  /** Runs of jobs without a number of this run: what waits for another day has -1. */
  strays = 0;
  first = undefined;
  last = undefined;
  stalledMs = 0;
  cpuAtFirst = undefined;
  #runs;
  #startedAt;

  constructor({ jobs, timed = false }) {
    this.#runs = new Uint8Array(jobs);
    if (timed) this.#startedAt = new Float64Array(jobs);
  }

  /** A run of job `n` begins; answers how many there were with this one. */
  ran(n) {
    if (this.#runs[n] === undefined) return void this.strays++;
    const at = now();
    if (this.first === undefined) {
      this.first = at;
      this.cpuAtFirst = process.cpuUsage();
    } else if (at - this.last > STALL_MS) this.stalledMs += at - this.last;
    this.last = at;
    if (this.#startedAt) this.#startedAt[n] = at;
    this.count++;
    return ++this.#runs[n];
  }

  /** Of the jobs below number `jobs`. */
  report(jobs) {
    const { user, system } = process.cpuUsage(this.cpuAtFirst);
    return {
      runs: this.#runs.slice(0, jobs),
      strays: this.strays,
      startedAt: this.#startedAt,
      first: this.first,
      last: this.last,
      stalledMs: this.stalledMs,
      cpuMs: (user + system) / 1_000,
    };
  }
}
