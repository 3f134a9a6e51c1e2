import { parseCron } from "../job/cron.js";
import { formatJobId } from "../job/job-id.js";
import { dueTicks, nextTick } from "../job/ticks.js";
import { TimeZone } from "../job/time-zone.js";
import { type DueSchedule, due, fire } from "../store/schedules/fire.js";
import type { Store } from "../store/store.js";

// Sees to schedules whose tick has come. Every process with a worker does, when a look or its timer says so; the row
// decides who has the tick.

/** What a tick has led to. */
export interface Fired {
  schedule: DueSchedule;
  /** The jobs, as the outside knows them. */
  ids: string[];
  /** Ticks that have none, because a job before them is not over. */
  leftOut: number;
}

export interface ScheduleWatch {
  fired(one: Fired): void;
  /** One of them cannot be seen to; the others are. */
  failed(schedule: DueSchedule, error: unknown): void;
}

/** Of an outage that is long over: between two of them other duties have their turn. */
const MAX_ROUNDS = 10;
/** What cannot be seen to is left alone for so long: it must not be in the way of others. */
const LEFT_ALONE_MS = 300_000;

export class ScheduleDuty {
  readonly #leftAlone = new Map<string, number>();

  constructor(
    private readonly store: Store,
    private readonly watch: ScheduleWatch,
  ) {}

  /** Enqueues what is due; what is left is due still. Answers whether it has moved anything on. */
  async run(): Promise<boolean> {
    let any = false;
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const moved = await this.#runOnce();
      if (!moved) return any;
      any = true;
    }
    return any;
  }

  async #runOnce(): Promise<boolean> {
    let moved = false;
    for (const schedule of await due(this.store, this.#apart())) {
      try {
        moved = (await this.#fire(schedule)) || moved;
      } catch (error) {
        this.#leftAlone.set(schedule.name, performance.now());
        this.watch.failed(schedule, error);
      }
    }
    return moved;
  }

  #apart(): string[] {
    const since = performance.now() - LEFT_ALONE_MS;
    for (const [name, at] of this.#leftAlone) if (at < since) this.#leftAlone.delete(name);
    return [...this.#leftAlone.keys()];
  }

  /** Answers whether it was this process that moved it on. */
  async #fire(schedule: DueSchedule): Promise<boolean> {
    const { ticks, last, next } = firingOf(schedule);
    const jobs = ticks.map((at) => ({ at, id: "" }));
    await this.store.number(jobs);
    const ids = await fire(this.store, schedule, { ticks: jobs, last, next });
    if (!ids) return false;
    this.watch.fired({
      schedule,
      ids: ids.map((id) => formatJobId(schedule.queueId, id)),
      leftOut: ticks.length - ids.length,
    });
    return true;
  }
}

/** A newer release may know more words than this one: it is left to that. */
export class UnreadableScheduleError extends Error {
  override readonly name = "UnreadableScheduleError";
}

interface Ticks {
  ticks: number[];
  last: number;
  next: number | undefined;
}

function firingOf({ cron, timeZone, misfire, tick, pausedUntil, now }: DueSchedule): Ticks {
  const [pattern, zone] = [parseCron(cron), TimeZone.of(timeZone)];
  if (Array.isArray(pattern)) throw new UnreadableScheduleError(pattern.join("; "));
  if (typeof zone === "string") throw new UnreadableScheduleError(zone);
  let first: number | undefined = tick;
  if (pausedUntil !== null && pausedUntil >= tick) first = nextTick(pattern, zone, pausedUntil);
  if (first === undefined || first > now) return { ticks: [], last: tick, next: first };
  const { fire: ticks, next } = dueTicks({ cron: pattern, zone, misfire }, first, now);
  return { ticks, last: ticks.at(-1) ?? first, next };
}
