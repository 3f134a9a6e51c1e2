import type { Duration } from "./duration.js";
import { MAX_DURATION_MS } from "./duration.js";
import { OptionsCheck } from "./options-check.js";

/** How long a job waits before its next attempt; implement it for a rule of your own. */
export interface Backoff {
  /**
   * The wait in ms. A value that is no finite number ≥ 0, or a throw, is replaced by `exponential()`.
   * @param failures 1 after the first failure.
   * @param error what was thrown.
   * @param random gives 0 ≤ x < 1, for jitter.
   */
  delay(failures: number, error: unknown, random: () => number): number;
}

/** A backoff of listed waits; more `attempts` than `length + 1` repeat the last one. */
export interface StepsBackoff extends Backoff {
  /** The number of waits listed; those beyond `attempts - 1` are never reached. */
  readonly length: number;
}

/** How much a wait d is lengthened at random: up to d · (1 + jitter). 0..1, default 0.1. */
export interface JitterOptions {
  jitter?: number;
}

/** Options of {@link linear}. */
export interface LinearOptions extends JitterOptions {
  /** The wait after the first failure. */
  first: Duration;
  /** What every further failure adds; default `first`. */
  step?: Duration;
  /** The longest wait, before jitter; default 10 years. */
  max?: Duration;
}

/** Options of {@link exponential}. */
export interface ExponentialOptions extends JitterOptions {
  /** The wait after the first failure; default 10 s. */
  first?: Duration;
  /** What every further failure multiplies it by; 1..100, default 2. */
  factor?: number;
  /** The longest wait, before jitter; default 1 h. */
  max?: Duration;
}

/** The same wait every time. @throws OptionsError for a bad duration or jitter. */
export function fixed(duration: Duration, options: JitterOptions = {}): Backoff {
  const check = new OptionsCheck("fixed backoff");
  const wait = check.duration("duration", required(check, "duration", duration)) ?? 0;
  const jitter = check.object("", options, ["jitter"]) ? checkJitter(check, options) : 0;
  check.done();
  return backoff(() => wait, jitter);
}

/** first, first + step, first + 2 · step … up to max. @throws OptionsError for a bad option. */
export function linear(options: LinearOptions): Backoff {
  const check = new OptionsCheck("linear backoff");
  if (!check.object("", options, ["first", "step", "max", "jitter"])) check.done();
  const first = check.duration("first", required(check, "first", options.first)) ?? 0;
  const step = check.duration("step", options.step) ?? first;
  const max = checkMax(check, options.max, MAX_DURATION_MS, first);
  const jitter = checkJitter(check, options);
  check.done();
  return backoff((failures) => Math.min(max, first + step * (failures - 1)), jitter);
}

/** The listed waits in turn, the last one repeats, no jitter. @throws OptionsError for a bad one. */
export function steps(...durations: Duration[]): StepsBackoff {
  const check = new OptionsCheck("steps backoff");
  if (durations.length === 0) check.add("expected at least one duration, found none");
  const waits = durations.map(
    (d, i) => check.duration(`[${i}]`, required(check, `[${i}]`, d)) ?? 0,
  );
  check.done();
  const wait = backoff((failures) => waits[Math.min(failures, waits.length) - 1]!, 0);
  return Object.freeze({ ...wait, length: waits.length });
}

/** first, first · factor, first · factor² … up to max. @throws OptionsError for a bad option. */
export function exponential(options: ExponentialOptions = {}): Backoff {
  const check = new OptionsCheck("exponential backoff");
  if (!check.object("", options, ["first", "factor", "max", "jitter"])) check.done();
  const first = check.duration("first", options.first) ?? 10_000;
  const factor = check.number("factor", options.factor, 1, 100) ?? 2;
  const max = checkMax(check, options.max, Math.max(3_600_000, first), first);
  const jitter = checkJitter(check, options);
  check.done();
  return backoff((failures) => Math.min(max, first * factor ** (failures - 1)), jitter);
}

function backoff(wait: (failures: number) => number, jitter: number): Backoff {
  return Object.freeze({
    delay: (failures: number, _error: unknown, random: () => number) =>
      Math.round(wait(Math.max(1, failures)) * (jitter === 0 ? 1 : 1 + jitter * random())),
  });
}

function checkJitter(check: OptionsCheck, options: JitterOptions): number {
  return check.number("jitter", options.jitter, 0, 1) ?? 0.1;
}

function checkMax(check: OptionsCheck, max: unknown, absent: number, first: number): number {
  const ms = check.duration("max", max) ?? absent;
  if (ms < first) check.add(`max: expected at least first (${first} ms), found ${ms} ms`);
  return ms;
}

function required(check: OptionsCheck, at: string, duration: unknown): unknown {
  if (duration === undefined) check.expected(at, "a duration such as '30s'", duration);
  return duration;
}
