import type { Backoff } from "./backoff.js";
import { exponential } from "./backoff.js";
import type { Duration } from "./duration.js";
import type { OptionsCheck } from "./options-check.js";

/** A class of errors, matched with `instanceof`. */
export type ErrorClass = abstract new (...args: never[]) => Error;

/** The options a definition, a handler and the module share; the first of them that says it wins. */
export interface JobDefaults {
  /** How many runs may fail or time out, the first included; 1..1000, default 5. */
  attempts?: number;
  /** The wait before the next attempt; default `exponential()`. */
  backoff?: Backoff;
  /** The longest an attempt may run; default 5 m. */
  timeout?: Duration;
  /** Only these errors are retried, all others bury the job; absent: every error is retried. */
  retryOn?: readonly ErrorClass[];
  /** These errors bury the job at once, and win over `retryOn`; absent: none. */
  buryOn?: readonly ErrorClass[];
}

/** {@link JobDefaults} after checking; null where nothing was said. */
export interface ParsedDefaults {
  readonly attempts: number | null;
  readonly backoff: Backoff | null;
  readonly timeoutMs: number | null;
  readonly retryOn: readonly ErrorClass[] | null;
  readonly buryOn: readonly ErrorClass[] | null;
}

/** What holds for a job once every level has spoken; null lists mean that none was given. */
export interface JobPolicy {
  readonly attempts: number;
  readonly backoff: Backoff;
  readonly timeoutMs: number;
  readonly retryOn: readonly ErrorClass[] | null;
  readonly buryOn: readonly ErrorClass[] | null;
}

/** The keys of {@link JobDefaults}. */
export const DEFAULTS_KEYS = ["attempts", "backoff", "timeout", "retryOn", "buryOn"] as const;

/** What holds when no level says anything. */
export const BUILT_IN_POLICY: JobPolicy = Object.freeze({
  attempts: 5,
  backoff: exponential(),
  timeoutMs: 300_000,
  retryOn: null,
  buryOn: null,
});

/** Checks the values of {@link JobDefaults}; its keys are the caller's to check. */
export function parseDefaults(
  check: OptionsCheck,
  options: Record<string, unknown>,
  at = "",
): ParsedDefaults {
  return Object.freeze({
    attempts: check.integer(`${at}attempts`, options.attempts, 1, 1000) ?? null,
    backoff: checkBackoff(check, `${at}backoff`, options.backoff),
    timeoutMs: check.duration(`${at}timeout`, options.timeout) ?? null,
    retryOn: checkClasses(check, `${at}retryOn`, options.retryOn),
    buryOn: checkClasses(check, `${at}buryOn`, options.buryOn),
  });
}

/** The policy of a job: for each option the first level that says it, else the built-in one. */
export function resolvePolicy(...levels: readonly Partial<ParsedDefaults>[]): JobPolicy {
  const first = <K extends keyof ParsedDefaults>(key: K): JobPolicy[K] =>
    (levels.find((level) => level[key] != null)?.[key] ?? BUILT_IN_POLICY[key]) as JobPolicy[K];
  return Object.freeze({
    attempts: first("attempts"),
    backoff: first("backoff"),
    timeoutMs: first("timeoutMs"),
    retryOn: first("retryOn"),
    buryOn: first("buryOn"),
  });
}

function checkBackoff(check: OptionsCheck, at: string, value: unknown): Backoff | null {
  if (value === undefined) return null;
  if (typeof (value as Backoff | null)?.delay === "function") return value as Backoff;
  check.expected(at, "a backoff such as exponential() or steps('1m', '5m')", value);
  return null;
}

function checkClasses(
  check: OptionsCheck,
  at: string,
  value: unknown,
): readonly ErrorClass[] | null {
  if (value === undefined) return null;
  if (Array.isArray(value) && value.every((item) => typeof item === "function")) {
    return Object.freeze([...(value as ErrorClass[])]);
  }
  check.expected(at, "a list of error classes", value);
  return null;
}
