import { types } from "node:util";
import { DURATION_FORMS, readDuration } from "./duration.js";
import { JobsError, OptionsError } from "./errors.js";
import { safeText } from "./json.js";

const NAME = /^[^\p{Cc}\p{Cs}]{1,64}$/u;

/** Whether it may name a kind or a queue: 1..64 characters, well-formed, no control characters. */
export function isName(value: unknown): value is string {
  return typeof value === "string" && value.length <= 128 && NAME.test(value);
}

const LAST_MS = Date.UTC(10_000, 0) - 1;

/**
 * Collects what is wrong with the options of one call, so that all of it is told at once.
 * Each reader returns the checked value, or undefined when it is absent or bad.
 */
export class OptionsCheck {
  readonly #problems: string[] = [];

  /** @param subject what is checked, e.g. `JobsModule.forRoot options`; begins the message. */
  constructor(readonly subject: string) {}

  /** Adds a problem in your own words. */
  add(problem: string): void {
    this.#problems.push(problem);
  }

  /** Adds a problem: what stands at `at`, what was expected, what was found. */
  expected(at: string, expected: string, found: unknown): undefined {
    this.#problems.push(`${at}: expected ${expected}, found ${describe(found)}`);
    return undefined;
  }

  /** Whether it is an object whose keys are all known; unknown ones answer "did you mean". */
  object(at: string, value: unknown, known: readonly string[]): value is Record<string, unknown> {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      // not the text itself: it may be a connection string
      const found = typeof value === "string" ? "a string" : describe(value);
      this.add(`${at || "options"}: expected an object, found ${found}`);
      return false;
    }
    for (const key of Object.keys(value)) {
      if (known.includes(key)) continue;
      const near = nearest(key, known);
      const advice = near ? `did you mean ${near}?` : `known are ${known.join(", ")}`;
      this.add(`${at ? `${at}.` : ""}${safeText(key, 64)}: unknown option, ${advice}`);
    }
    return true;
  }

  /** The object with known keys that stands there; an empty one when absent or bad. */
  absentOr(at: string, value: unknown, known: readonly string[]): Record<string, unknown> {
    return value !== undefined && this.object(at, value, known) ? value : {};
  }

  /** An integer in a range. */
  integer(at: string, value: unknown, min: number, max: number): number | undefined {
    if (value === undefined) return undefined;
    if (Number.isInteger(value) && Number(value) >= min && Number(value) <= max) {
      return Number(value);
    }
    return this.expected(at, `an integer ${min}..${max}`, value);
  }

  /** A number in a range. */
  number(at: string, value: unknown, min: number, max: number): number | undefined {
    if (value === undefined) return undefined;
    if (typeof value === "number" && value >= min && value <= max) return value;
    return this.expected(at, `a number ${min}..${max}`, value);
  }

  /** A duration in ms; by default more than 0. */
  duration(at: string, value: unknown, min = 1, max = Infinity): number | undefined {
    if (value === undefined) return undefined;
    const ms = readDuration(value);
    if (ms === undefined) return this.expected(at, DURATION_FORMS, value);
    if (ms >= min && ms <= max) return ms;
    const range = max === Infinity ? `at least ${min} ms` : `${min}..${max} ms`;
    return this.expected(at, `a duration of ${range}`, value);
  }

  /** A point in time that PostgreSQL reads; a copy: the caller may change his before it is sent. */
  date(at: string, value: unknown): Date | undefined {
    if (value === undefined) return undefined;
    const ms = types.isDate(value) ? value.getTime() : Number.NaN;
    if (ms >= 0 && ms <= LAST_MS) return new Date(ms);
    return this.expected(at, "a valid Date in the years 1970..9999", value);
  }

  /** The name of a kind or queue. */
  name(at: string, value: unknown): string | undefined {
    if (value === undefined || isName(value)) return value;
    return this.expected(at, "1..64 characters without control characters", value);
  }

  /** true or false. */
  flag(at: string, value: unknown): boolean | undefined {
    if (value === undefined || typeof value === "boolean") return value;
    return this.expected(at, "true or false", value);
  }

  /** One of some words. */
  word<W extends string>(at: string, value: unknown, words: readonly W[]): W | undefined {
    if (value === undefined) return undefined;
    const word = words.find((w) => w === value);
    if (word !== undefined) return word;
    const near = typeof value === "string" ? nearest(value, words) : undefined;
    const advice = near ? `; did you mean '${near}'?` : "";
    this.add(
      `${at}: expected ${words.map((w) => `'${w}'`).join(" or ")}, found ${describe(value)}${advice}`,
    );
    return undefined;
  }

  /** @throws OptionsError with all problems, if there were any. */
  done(): void {
    if (this.#problems.length > 0) throw new OptionsError(this.subject, this.#problems);
  }
}

/** What `read` makes of arguments; one that throws when it is looked at is a bad one. @throws OptionsError */
export function readable<T>(subject: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof JobsError) throw error;
    const problem = "expected plain values, found a getter or proxy that throws";
    throw new OptionsError(subject, [problem], { cause: error });
  }
}

/** The word with the smallest edit distance; undefined when none is near enough to be meant. */
export function nearest(found: string, words: readonly string[]): string | undefined {
  const text = found.slice(0, 64).toLowerCase();
  let best: string | undefined;
  let least = Math.max(2, Math.floor(text.length / 3)) + 1;
  for (const word of words) {
    // It was not there a moment ago.
    if (word === found) continue;
    if (Math.abs(word.length - text.length) >= least) continue;
    const distance = editDistance(text, word.toLowerCase(), least);
    if (distance < least && distance < word.length) [best, least] = [word, distance];
  }
  return best;
}

/** What was found, for a message: short, and no URL, because it may hold a password. */
export function describe(value: unknown): string {
  if (typeof value === "string") {
    if (value.includes("://")) return "a URL";
    return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  }
  if (value === null || typeof value === "number" || typeof value === "boolean") {
    return String(value);
  }
  if (typeof value === "bigint") return "a bigint";
  if (value === undefined || typeof value === "symbol") return value ? "a symbol" : "undefined";
  // a revoked one throws even when it is asked whether it is an array
  if (types.isProxy(value)) return "a proxy";
  if (types.isDate(value))
    return Number.isNaN(value.getTime()) ? "an invalid Date" : `the Date ${value.toISOString()}`;
  return Array.isArray(value)
    ? "an array"
    : typeof value === "function"
      ? "a function"
      : "an object";
}

/** What is `limit` or more is not told apart: most words are far away, which their first letters say. */
function editDistance(a: string, b: string, limit: number): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const here = Math.min(replaced, row[j]! + 1, next[j - 1]! + 1);
      next[j] = here;
      if (here < least) least = here;
    }
    if (least >= limit) return limit;
    row = next;
  }
  return row[b.length]!;
}
