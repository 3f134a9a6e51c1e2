import type { Duration } from "./duration.js";
import { OptionsCheck } from "./options-check.js";
import { isSignal } from "./result-options.js";

/** Which due jobs of a queue are to be worked off now. */
export interface ProcessOptions {
  /** One of its kinds; absent: all. */
  kind?: string;
  /** At most so many, those that come first; 1..1,000, default 100. */
  limit?: number;
  /** How long to wait for them; at most 5 minutes, default `'30s'`. They go on afterwards. */
  timeout?: Duration;
  /** Ends the wait when it aborts, with its reason. They go on. */
  signal?: AbortSignal;
}

/** {@link ProcessOptions} with their defaults. */
export interface ParsedProcessOptions {
  readonly kind: string | null;
  readonly limit: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | null;
}

const MOST = 1_000;
const LONGEST_MS = 300_000;

/** @throws OptionsError with all problems. */
export function parseProcessOptions(options: unknown): ParsedProcessOptions {
  const check = new OptionsCheck("options of process");
  const given = check.absentOr("", options, ["kind", "limit", "timeout", "signal"]);
  const parsed = {
    kind: check.name("kind", given.kind) ?? null,
    limit: check.integer("limit", given.limit, 1, MOST) ?? 100,
    timeoutMs: check.duration("timeout", given.timeout, 1, LONGEST_MS) ?? 30_000,
  };
  const { signal } = given;
  if (signal !== undefined && !isSignal(signal)) check.expected("signal", "an AbortSignal", signal);
  check.done();
  return { ...parsed, signal: (signal as AbortSignal | undefined) ?? null };
}
