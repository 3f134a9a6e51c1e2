import type { KindCounts } from "nestjs-pg-jobs";

// How many jobs come and end, from counters that were read anyway: nothing is asked of the database for it.

/** So far back a rate reaches, if somebody looked then. */
const OVER_MS = 60_000;
/** What was read before says nothing of now. */
const KEPT_MS = 5 * 60_000;
/** Readings that are closer together say little. */
const APART_MS = 1_000;

/** Jobs a second of a queue; null: nobody has looked within the last minutes. */
export interface QueueRate {
  enqueuedPerSecond: number | null;
  /** However they ended; one that is sent again is one that has not ended. */
  endedPerSecond: number | null;
}

interface Reading {
  readonly ms: number;
  readonly at: Date;
  readonly queues: ReadonlyMap<string, { all: number; ended: number }>;
}

const UNKNOWN: QueueRate = { enqueuedPerSecond: null, endedPerSecond: null };
const NONE = { all: 0, ended: 0 };

export class Rates {
  /** The oldest first, at least {@link APART_MS} apart but for the last. */
  readonly #readings: Reading[] = [];

  /** These were read at that time. */
  note(counts: readonly KindCounts[], at: Date): void {
    const readings = this.#readings;
    const ms = performance.now();
    while (readings.length > 0 && readings[0]!.ms < ms - KEPT_MS) readings.shift();
    while (readings.length > 1 && readings[1]!.ms <= ms - OVER_MS) readings.shift();
    if (readings.length > 1 && readings.at(-1)!.ms - readings.at(-2)!.ms < APART_MS) readings.pop();
    readings.push({ ms, at, queues: byQueue(counts) });
  }

  /** Since when they count; null: there is nothing yet to compare with. */
  get since(): Date | null {
    return this.#seconds === undefined ? null : this.#readings[0]!.at;
  }

  of(queue: string): QueueRate {
    const seconds = this.#seconds;
    if (seconds === undefined) return UNKNOWN;
    const before = this.#readings[0]!.queues.get(queue) ?? NONE;
    const now = this.#readings.at(-1)!.queues.get(queue) ?? NONE;
    return {
      enqueuedPerSecond: rounded((now.all - before.all) / seconds),
      endedPerSecond: rounded((now.ended - before.ended) / seconds),
    };
  }

  get #seconds(): number | undefined {
    const ms = (this.#readings.at(-1)?.ms ?? 0) - (this.#readings[0]?.ms ?? 0);
    return ms < APART_MS ? undefined : ms / 1_000;
  }
}

function byQueue(counts: readonly KindCounts[]): Reading["queues"] {
  const queues = new Map<string, { all: number; ended: number }>();
  for (const { queue, kind: _, unfinished, ...over } of counts) {
    const ended = Object.values(over).reduce((sum, n) => sum + n, 0);
    const so = queues.get(queue) ?? NONE;
    queues.set(queue, { all: so.all + unfinished + ended, ended: so.ended + ended });
  }
  return queues;
}

const rounded = (rate: number): number => Math.max(0, Math.round(rate * 1_000) / 1_000);
