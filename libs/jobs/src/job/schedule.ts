import { type Cron, parseCron } from "./cron.js";
import type { EnqueueOptions } from "./enqueue-options.js";
import { OptionsCheck, isName } from "./options-check.js";
import type { Misfire } from "./ticks.js";
import { TimeZone } from "./time-zone.js";

/** What a tick does while the job of an earlier one is not over: nothing, or it waits behind that. */
export type Overlap = "skip" | "queue";

/** When a schedule is due, and what becomes of ticks that come too early or too late. */
export interface Timetable {
  /** Five fields, or six with the second before them: `'30 8 * * mon-fri'`; `'@daily'` and the like. */
  cron: string;
  /** The name of a time zone, such as `'Europe/Berlin'`; default `'UTC'`. */
  timeZone?: string;
  /** What a tick does while the job of an earlier one is not over; default `'skip'`. */
  overlap?: Overlap;
  /**
   * What becomes of ticks that no worker was there for: `'skip'` forgets them, `'one'` (the default) makes up for the
   * last of them, `'all'` for each, a hundred at once.
   */
  misfire?: Misfire;
}

/** The options of `jobs.schedules.upsert`. */
export interface ScheduleOptions
  extends Timetable, Pick<EnqueueOptions, "queue" | "priority" | "attempts" | "timeout"> {
  /** The payload of each of its jobs; default `{}`. */
  payload?: unknown;
}

/** {@link Timetable} after checking, defaults filled in. */
export interface ParsedTimetable {
  readonly cron: Cron;
  readonly zone: TimeZone;
  readonly overlap: Overlap;
  readonly misfire: Misfire;
}

/** The names of {@link Timetable}. */
export const TIMETABLE_KEYS = ["cron", "timeZone", "overlap", "misfire"] as const;
const CALL_KEYS = ["queue", "priority", "attempts", "timeout"] as const;
const OVERLAPS = ["skip", "queue"] as const;
const MISFIRES = ["skip", "one", "all"] as const;
const UTC = "UTC";

/** Checks a timetable; what is wrong is added to `check`, and the answer is undefined then. */
export function parseTimetable(
  check: OptionsCheck,
  given: Record<string, unknown>,
): ParsedTimetable | undefined {
  const cron = parseCron(given.cron);
  const zone = TimeZone.of(given.timeZone === undefined ? UTC : given.timeZone);
  const overlap = check.word("overlap", given.overlap, OVERLAPS) ?? "skip";
  const misfire = check.word("misfire", given.misfire, MISFIRES) ?? "one";
  if (Array.isArray(cron)) for (const problem of cron) check.add(`cron: ${problem}`);
  if (typeof zone === "string") check.add(`timeZone: ${zone}`);
  if (Array.isArray(cron) || typeof zone === "string") return undefined;
  return Object.freeze({ cron, zone, overlap, misfire });
}

/** What `jobs.schedules.upsert` was asked for. */
export interface ParsedSchedule {
  readonly timetable: ParsedTimetable;
  readonly payload: unknown;
  /** What it says to each call of its own. */
  readonly call: EnqueueOptions;
}

/** Checks the options of `jobs.schedules.upsert`; those of the call itself are checked where it is. @throws OptionsError */
export function parseSchedule(name: string, options: ScheduleOptions): ParsedSchedule {
  const check = new OptionsCheck("options of a schedule");
  if (!isName(name)) check.expected("name", "1..64 characters without control characters", name);
  const known = [...TIMETABLE_KEYS, ...CALL_KEYS, "payload"];
  const given: Record<string, unknown> = check.object("", options, known) ? { ...options } : {};
  const timetable = parseTimetable(check, given);
  check.done();
  const said = CALL_KEYS.filter((key) => given[key] !== undefined);
  return {
    timetable: timetable!,
    payload: given.payload === undefined ? {} : given.payload,
    call: Object.fromEntries(said.map((key) => [key, given[key]])),
  };
}
