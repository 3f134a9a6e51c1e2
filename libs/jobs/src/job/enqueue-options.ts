import type { Definition } from "./definition.js";
import type { Duration } from "./duration.js";
import { OptionsCheck } from "./options-check.js";

/** The options of one `enqueue`; they win over the definition's. */
export interface EnqueueOptions {
  /** The wait before it may run, from the call, also in a transaction that began before; 0 is at once; excludes `at`. */
  delay?: Duration;
  /** When it may run, in the years 1970..9999; excludes `delay`. */
  at?: Date;
  /** Higher runs first; -100..100, default the definition's. */
  priority?: number;
  /** The queue to wait in; default the definition's. */
  queue?: string;
  /** How many runs may fail or time out; 1..1000, default the definition's. */
  attempts?: number;
  /** The longest an attempt may run; default the definition's. */
  timeout?: Duration;
  /** Unique per queue and kind while queued or running, 1..512 characters; absent: no dedupe. */
  key?: string;
  /**
   * How long the key is unique at least, from the call that creates the job, also when that has finished, died or
   * was cancelled; with `key` only. Calls without a window look at queued and running jobs only.
   */
  window?: Duration;
  /**
   * What a call does with a queued job that holds its key, with `key` only: `'keep'` (the default) leaves it,
   * `'replace-payload'` and `'replace-time'` change that alone, `'replace'` both, and `attempts` and `timeout`.
   * A job that is running or has finished is never changed; queue, priority, attempt and failures never are.
   */
  onConflict?: OnConflict;
}

/** The values of {@link EnqueueOptions.onConflict}. */
export type OnConflict = "keep" | "replace-payload" | "replace-time" | "replace";

/** {@link EnqueueOptions} over those of the definition; null attempts and timeout: neither says. */
export interface ParsedEnqueueOptions {
  readonly queue: string;
  readonly priority: number;
  readonly attempts: number | null;
  readonly timeoutMs: number | null;
  /** 0 when due at once, or at `at`. */
  readonly delayMs: number;
  readonly at: Date | null;
  readonly key: string | null;
  /** Null when the key is unique while its job is queued or running, and no more is asked for. */
  readonly unique: { readonly windowMs: number | null; readonly onConflict: OnConflict } | null;
}

/** The names of {@link EnqueueOptions}. */
export const ENQUEUE_KEYS = "delay at priority queue attempts timeout key window onConflict".split(
  " ",
);
const ON_CONFLICT = ["keep", "replace-payload", "replace-time", "replace"] as const;
const KEY = /^[^\0\p{Cs}]{1,512}$/u;

/** Checks the options of one `enqueue`. @throws OptionsError with all problems. */
export function parseEnqueueOptions(
  definition: Definition,
  options?: EnqueueOptions,
): ParsedEnqueueOptions {
  const { queue, priority, attempts, timeoutMs } = definition;
  if (options === undefined) {
    return { queue, priority, attempts, timeoutMs, delayMs: 0, at: null, key: null, unique: null };
  }
  const check = new OptionsCheck(`options of enqueue "${definition.kind}"`);
  const given = check.object("", options, ENQUEUE_KEYS) ? options : ({} as Record<string, unknown>);
  const parsed = {
    queue: check.name("queue", given.queue) ?? queue,
    priority: check.integer("priority", given.priority, -100, 100) ?? priority,
    attempts: check.integer("attempts", given.attempts, 1, 1000) ?? attempts,
    timeoutMs: check.duration("timeout", given.timeout) ?? timeoutMs,
    ...parseTimeAndKey(check, given),
  };
  check.done();
  return parsed;
}

/** What `enqueue` and `publish` have in common: when a job may run, and what its key asks for. */
export function parseTimeAndKey(
  check: OptionsCheck,
  given: Record<string, unknown>,
): Pick<ParsedEnqueueOptions, "delayMs" | "at" | "key" | "unique"> {
  if (given.delay !== undefined && given.at !== undefined) {
    check.add("delay, at: expected at most one of the two, found both");
  }
  return {
    delayMs: check.duration("delay", given.delay, 0) ?? 0,
    at: check.date("at", given.at) ?? null,
    key: parseKey(check, given.key),
    unique: parseUnique(check, given),
  };
}

function parseUnique(
  check: OptionsCheck,
  { key, window, onConflict }: Record<string, unknown>,
): ParsedEnqueueOptions["unique"] {
  if (window === undefined && onConflict === undefined) return null;
  if (key === undefined) {
    if (window !== undefined) check.add("window: expected a key beside it, found none");
    if (onConflict !== undefined) check.add("onConflict: expected a key beside it, found none");
  }
  const windowMs = check.duration("window", window) ?? null;
  const word = check.word("onConflict", onConflict, ON_CONFLICT) ?? "keep";
  return windowMs === null && word === "keep" ? null : { windowMs, onConflict: word };
}

function parseKey(check: OptionsCheck, value: unknown): string | null {
  if (value === undefined) return null;
  if (typeof value === "string" && value.length <= 1024 && KEY.test(value)) return value;
  const found = typeof value === "string" ? `${value.length} characters` : typeof value;
  check.add(`key: expected 1..512 well-formed characters without NUL, found ${found}`);
  return null;
}
