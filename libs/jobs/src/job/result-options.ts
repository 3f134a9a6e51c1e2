import type { Duration } from "./duration.js";
import { OptionsCheck } from "./options-check.js";

/** The options of `jobs.result`. */
export interface ResultOptions {
  /** How long to wait, at most 10 years; default `'30s'`. The job goes on afterwards. */
  timeout?: Duration;
  /** Ends the wait when it aborts, with its reason. The job goes on. */
  signal?: AbortSignal;
}

/** {@link ResultOptions} with their default. */
export interface ParsedResultOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | null;
}

const DEFAULT_TIMEOUT_MS = 30_000;

/** @throws OptionsError with all problems. */
export function parseResultOptions(options?: ResultOptions): ParsedResultOptions {
  const check = new OptionsCheck("options of result");
  const given = check.absentOr("", options, ["timeout", "signal"]);
  const timeoutMs = check.duration("timeout", given.timeout) ?? DEFAULT_TIMEOUT_MS;
  const { signal } = given;
  if (signal !== undefined && !isSignal(signal)) check.expected("signal", "an AbortSignal", signal);
  check.done();
  return { timeoutMs, signal: (signal as AbortSignal | undefined) ?? null };
}

// Not by its class: it may be of another realm.
export const isSignal = (value: unknown): value is AbortSignal =>
  typeof value === "object" &&
  value !== null &&
  typeof (value as Partial<AbortSignal>).aborted === "boolean" &&
  typeof (value as Partial<AbortSignal>).addEventListener === "function";
