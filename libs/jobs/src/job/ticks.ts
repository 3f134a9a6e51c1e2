import type { Cron } from "./cron.js";
import type { TimeZone } from "./time-zone.js";

// When a schedule is due. A time that a change of clock leaves out is made up for at the change, once for all of them;
// one that it repeats counts the first time, but for schedules of every hour, whose pace is what matters.

/** The first tick after an instant; both in ms. Undefined when none comes. */
export function nextTick(cron: Cron, zone: TimeZone, after: number): number | undefined {
  const shown = zone.wall(after);
  const change = zone.repeating(shown);
  if (!change) return firstOf(zone, cron.next(shown));
  const again = after >= change.at;
  if (!cron.everyHour) return firstOf(zone, cron.next(again ? change.from - 1 : shown));
  const here = cron.next(shown);
  if (here !== undefined && here < change.from) return after + (here - shown);
  const wall = again ? here : cron.next(change.to - 1);
  if (wall === undefined) return undefined;
  return wall < change.from ? change.at + (wall - change.to) : zone.first(wall);
}

const firstOf = (zone: TimeZone, wall: number | undefined): number | undefined =>
  wall === undefined ? undefined : zone.first(wall);

/** The ticks after an instant and up to another one, in order. */
export function* ticks(
  cron: Cron,
  zone: TimeZone,
  { after, until }: { after: number; until: number },
): Generator<number> {
  for (let tick = nextTick(cron, zone, after); tick !== undefined && tick <= until;) {
    yield tick;
    tick = nextTick(cron, zone, tick);
  }
}

/** What becomes of ticks that nobody saw in time: none is made up for, the last one is, or all are. */
export type Misfire = "skip" | "one" | "all";

/** What a schedule that is due has to do. */
export interface DueTicks {
  /** To be enqueued now, in order. */
  fire: number[];
  /** The tick after those; undefined when none comes. */
  next: number | undefined;
}

/** Nobody looks more seldom: what is seen so late was missed. */
const LATE_MS = 60_000;
/** After a long outage they come in parts, and other duties in between. */
const MAX_AT_ONCE = 100;

/** What is to be done with the ticks from `tick`, the next one that was foreseen, until now; in ms of the server's clock. */
export function dueTicks(
  { cron, zone, misfire }: { cron: Cron; zone: TimeZone; misfire: Misfire },
  tick: number,
  now: number,
): DueTicks {
  if (tick > now) return { fire: [], next: tick };
  if (misfire === "all") {
    const fire = [tick];
    let next = nextTick(cron, zone, tick);
    while (next !== undefined && next <= now && fire.length < MAX_AT_ONCE) {
      fire.push(next);
      next = nextTick(cron, zone, next);
    }
    return { fire, next };
  }
  const last = lastTick(cron, zone, tick, now);
  const missed = now - last > LATE_MS;
  return { fire: missed && misfire === "skip" ? [] : [last], next: nextTick(cron, zone, last) };
}

/** The last tick up to an instant, from one before it on; halving, for there may be millions of them. */
function lastTick(cron: Cron, zone: TimeZone, tick: number, until: number): number {
  let [last, end] = [tick, until];
  for (;;) {
    const following = nextTick(cron, zone, last);
    if (following === undefined || following > until) return last;
    const middle = Math.max(last, Math.floor((last + end) / 2));
    const later = nextTick(cron, zone, middle);
    if (later !== undefined && later <= until) last = later;
    else {
      end = middle;
      last = following;
    }
  }
}
