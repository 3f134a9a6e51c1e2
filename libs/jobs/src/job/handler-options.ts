import type { JobDefaults, ParsedDefaults } from "./defaults.js";
import type { Duration } from "./duration.js";
import { DEFAULTS_KEYS, parseDefaults } from "./defaults.js";
import { LIMIT_KEYS, type LimitRule, type Limits, parseLimits } from "./limit.js";
import { OptionsCheck } from "./options-check.js";
import { type ParsedTimetable, TIMETABLE_KEYS, parseTimetable } from "./schedule.js";

/** The options of `@JobHandler`; they yield to the definition's. */
export interface HandlerOptions extends JobDefaults, Limits {
  /** How many of its jobs run at once in this process; 1..10,000, default the queue's. */
  concurrency?: number;
  /**
   * The handler is called with a list of jobs, {@link BatchItem}, and answers for each of them. Each takes a slot of its
   * own, and ends, fails and is tried again on its own.
   */
  batch?: BatchOptions;
}

/** How jobs go together into a call. */
export interface BatchOptions {
  /** At most so many; 1..10,000. */
  size: number;
  /** How long the first of them waits for others; 0..1 h, default 0: those that are claimed together. */
  wait?: Duration;
}

/** {@link HandlerOptions} after checking; null where nothing was said. */
export interface ParsedHandlerOptions extends ParsedDefaults {
  readonly concurrency: number | null;
  readonly limits: readonly LimitRule[] | null;
  readonly batch: { readonly size: number; readonly waitMs: number } | null;
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

/** Of a subscriber: what is its own beside what every handler can say. @throws OptionsError with all problems. */
export function parseSubscriberOptions<T>(
  options: unknown,
  subject: string,
  known: readonly string[],
  read: (check: OptionsCheck, given: Record<string, unknown>) => T,
): { own: ParsedHandlerOptions; said: T } {
  const check = new OptionsCheck(subject);
  const given: Record<string, unknown> = check.object("", options, [...known, ...KEYS])
    ? options
    : {};
  const own = parseOwn(check, given);
  const said = read(check, given);
  check.done();
  return { own, said };
}

const KEYS = ["concurrency", "batch", ...LIMIT_KEYS, ...DEFAULTS_KEYS];

function parseOwn(check: OptionsCheck, given: Record<string, unknown>): ParsedHandlerOptions {
  const concurrency = check.integer("concurrency", given.concurrency, 1, MAX_CONCURRENCY) ?? null;
  const limits = parseLimits(check, given);
  const batch = parseBatch(check, given.batch);
  return Object.freeze({ concurrency, limits, batch, ...parseDefaults(check, given) });
}

const HOUR_MS = 3_600_000;

function parseBatch(check: OptionsCheck, value: unknown): ParsedHandlerOptions["batch"] {
  if (value === undefined || !check.object("batch", value, ["size", "wait"])) return null;
  if (value.size === undefined)
    check.expected("batch.size", `an integer 1..${MAX_CONCURRENCY}`, value.size);
  const size = check.integer("batch.size", value.size, 1, MAX_CONCURRENCY) ?? 1;
  const waitMs = check.duration("batch.wait", value.wait, 0, HOUR_MS) ?? 0;
  return Object.freeze({ size, waitMs });
}
