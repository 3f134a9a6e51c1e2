import type { JobDefaults, ParsedDefaults } from "./defaults.js";
import { DEFAULTS_KEYS, parseDefaults } from "./defaults.js";
import { OptionsCheck } from "./options-check.js";
import { type ParsedTimetable, TIMETABLE_KEYS, parseTimetable } from "./schedule.js";

/** The options of `@JobHandler`; they yield to the definition's. */
export interface HandlerOptions extends JobDefaults {
  /** How many of its jobs run at once in this process; 1..10,000, default the queue's. */
  concurrency?: number;
}

/** {@link HandlerOptions} after checking; null where nothing was said. */
export interface ParsedHandlerOptions extends ParsedDefaults {
  readonly concurrency: number | null;
}

/** The most jobs of one queue or handler that may run at once in a process. */
export const MAX_CONCURRENCY = 10_000;

/** Checks the options of `@JobHandler`. @throws OptionsError with all problems. */
export function parseHandlerOptions(
  options: HandlerOptions = {},
  subject = "options of @JobHandler",
): ParsedHandlerOptions {
  const check = new OptionsCheck(subject);
  const given = check.object("", options, KEYS) ? options : ({} as Record<string, unknown>);
  const parsed = parseOwn(check, given);
  check.done();
  return parsed;
}

/** {@link HandlerOptions} of `@ScheduledJob`, with its timetable. */
export interface ParsedScheduledOptions {
  readonly own: ParsedHandlerOptions;
  readonly schedule: { readonly timetable: ParsedTimetable; readonly payload: unknown };
}

/** Checks the options of `@ScheduledJob`. @throws OptionsError with all problems. */
export function parseScheduledOptions(options: unknown, subject: string): ParsedScheduledOptions {
  const check = new OptionsCheck(subject);
  const known = [...TIMETABLE_KEYS, "payload", ...KEYS];
  const given: Record<string, unknown> = check.object("", options, known) ? options : {};
  const own = parseOwn(check, given);
  const timetable = parseTimetable(check, given);
  check.done();
  return { own, schedule: { timetable: timetable!, payload: given.payload ?? {} } };
}

const KEYS = ["concurrency", ...DEFAULTS_KEYS];

function parseOwn(check: OptionsCheck, given: Record<string, unknown>): ParsedHandlerOptions {
  const concurrency = check.integer("concurrency", given.concurrency, 1, MAX_CONCURRENCY) ?? null;
  return Object.freeze({ concurrency, ...parseDefaults(check, given) });
}
