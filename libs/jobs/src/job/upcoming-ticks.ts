import { parseCron } from "./cron.js";
import { nextTick } from "./ticks.js";
import { TimeZone } from "./time-zone.js";

/** A schedule, as far as it says when it is due. */
export interface Foreseen {
  cron: string;
  timeZone: string;
  /** The tick that is foreseen; null: none comes any more. */
  nextAt: Date | null;
  /** `until` null: until it is resumed. */
  paused: { until: Date | null } | null;
  /** Not null: it has no ticks. */
  retiredAt: Date | null;
}

/** The next ticks that will have a job, in order; fewer when no more come, none while nobody knows when it is resumed. */
export function upcomingTicks(schedule: Foreseen, count: number): Date[] {
  const { paused, nextAt, retiredAt } = schedule;
  const [cron, zone] = [parseCron(schedule.cron), TimeZone.of(schedule.timeZone)];
  if (Array.isArray(cron) || typeof zone === "string") return [];
  if (nextAt === null || retiredAt !== null || (paused !== null && paused.until === null))
    return [];
  const until = paused?.until?.getTime() ?? -Infinity;
  const foreseen = nextAt.getTime();
  let tick: number | undefined = foreseen > until ? foreseen : nextTick(cron, zone, until);
  const found: Date[] = [];
  for (; tick !== undefined && found.length < count; tick = nextTick(cron, zone, tick))
    found.push(new Date(tick));
  return found;
}
