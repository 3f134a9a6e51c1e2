import type { Backoff } from "./backoff.js";
import type { ErrorClass } from "./defaults.js";
import { BUILT_IN_POLICY } from "./defaults.js";
import type { Duration } from "./duration.js";
import { durationMs, MAX_DURATION_MS } from "./duration.js";
import { JobCancelledError } from "./errors.js";
import { safeText } from "./json.js";

// by name, so that two copies of the package know each other's verdicts
const VERDICT: unique symbol = Symbol.for("nestjs-pg-jobs.verdict");

type Ruling =
  | { readonly verb: "snooze"; readonly delayMs: number }
  | { readonly verb: "skip"; readonly reason: string }
  | { readonly verb: "bury"; readonly reason: string };

/** What a handler rules about its own job: returned or thrown, the meaning is the same. */
export abstract class Verdict extends Error {
  /** What it rules; known by its symbol, not by its class. */
  declare readonly [VERDICT]: Ruling;

  static {
    Object.defineProperty(this.prototype, "name", { value: "Verdict", configurable: true });
  }

  constructor(ruling: Ruling) {
    super(ruling.verb === "snooze" ? `snooze ${ruling.delayMs} ms` : ruling.reason);
    Object.defineProperty(this, VERDICT, { value: Object.freeze(ruling) });
  }
}

class Given extends Verdict {}

/** Its reason becomes the last error of a dead job, and its name stands before it. */
class Buried extends Verdict {
  static {
    Object.defineProperty(this.prototype, "name", { value: "Buried", configurable: true });
  }
}

/** Run it again after this long; counts no failure. @throws OptionsError for a bad duration. */
export function snooze(duration: Duration): Verdict {
  return new Given({ verb: "snooze", delayMs: durationMs(duration, "snooze") });
}

/** There was nothing to do: finished as skipped, the reason (≤ 1,000 characters) is its result. */
export function skip(reason: string): Verdict {
  return new Given({ verb: "skip", reason: safeText(String(reason), 1_000) });
}

/** It can never succeed: dead at once, the reason (≤ 1,000 characters) is its last error. */
export function bury(reason: string): Verdict {
  return new Buried({ verb: "bury", reason: safeText(String(reason), 1_000) });
}

/** How a run ended; `aborted` means that the worker, not the handler, ended it. */
export type Result =
  | { readonly type: "returned"; readonly value: unknown }
  | { readonly type: "threw"; readonly error: unknown }
  | { readonly type: "timed-out"; readonly error: unknown }
  | { readonly type: "aborted" };

/** Why a job dies. */
export type BuryReason = "exhausted" | "buried" | "bury-on" | "not-retryable";

/** What becomes of the attempt; the settle of the same name writes it. */
export type Decision =
  | { readonly verb: "succeed"; readonly result: unknown }
  | { readonly verb: "skip"; readonly reason: string }
  | { readonly verb: "snooze"; readonly delayMs: number }
  /** `problem` tells that the backoff threw or gave nonsense and `exponential()` took its place. */
  | {
      readonly verb: "retry";
      readonly delayMs: number;
      readonly error: unknown;
      readonly problem?: string;
    }
  | { readonly verb: "bury"; readonly error: unknown; readonly reason: BuryReason }
  | { readonly verb: "hand-back" }
  /** `error`: what it threw, unless that is the reason of its signal. */
  | { readonly verb: "cancel"; readonly error?: unknown };

// What most attempts come to, held until it is written; why they are classes, ADR 12 says.

class Success {
  readonly verb = "succeed";
  constructor(readonly result: unknown) {}
}

class Retry {
  readonly verb = "retry";
  constructor(
    readonly delayMs: number,
    readonly error: unknown,
  ) {}
}

/** The part of a job's policy that decides; null or absent lists mean that none was given. */
export interface DecisionPolicy {
  readonly backoff: Backoff;
  readonly retryOn?: readonly ErrorClass[] | null;
  readonly buryOn?: readonly ErrorClass[] | null;
}

/** What a decision has to know of the job. */
export interface Judged {
  /** Before this run. */
  readonly failures: number;
  readonly attempts: number;
  /** Its cancel was requested, and its signal says so. */
  readonly cancelled?: boolean;
}

/**
 * What becomes of an attempt. Pure, never throws.
 * @param random gives 0 ≤ x < 1, for jitter.
 */
export function decide(
  job: Judged,
  result: Result,
  policy: DecisionPolicy,
  random: () => number,
): Decision {
  if (result.type === "aborted") return { verb: "hand-back" };
  if (result.type === "timed-out") return fail(job, result.error, policy, random);
  const said = result.type === "returned" ? result.value : result.error;
  const ruling = rulingOf(said);
  if (ruling?.verb === "bury") return { verb: "bury", error: said, reason: "buried" };
  if (ruling) return ruling;
  if (result.type === "returned") return new Success(said);
  return fail(job, said, policy, random);
}

function fail(
  job: Judged,
  error: unknown,
  { backoff, retryOn, buryOn }: DecisionPolicy,
  random: () => number,
): Decision {
  // Nobody wants it any more: that it failed for the last time makes it no dead letter.
  if (job.cancelled) return isTheCancel(error) ? { verb: "cancel" } : { verb: "cancel", error };
  if (buryOn && isOneOf(error, buryOn)) return { verb: "bury", error, reason: "bury-on" };
  if (retryOn && !isOneOf(error, retryOn)) return { verb: "bury", error, reason: "not-retryable" };
  const failures = job.failures + 1;
  if (failures >= job.attempts) return { verb: "bury", error, reason: "exhausted" };
  const wait = waitOf(backoff, failures, error, random);
  if (wait !== undefined) return new Retry(wait, error);
  return {
    verb: "retry",
    delayMs: waitOf(BUILT_IN_POLICY.backoff, failures, error, random) ?? 10_000,
    error,
    problem: "the backoff threw or gave no number of ms ≥ 0; exponential() was used instead",
  };
}

function waitOf(
  backoff: Backoff,
  failures: number,
  error: unknown,
  random: () => number,
): number | undefined {
  try {
    const ms: unknown = backoff.delay(failures, error, random);
    if (typeof ms !== "number" || !Number.isFinite(ms) || ms < 0) return undefined;
    return Math.min(MAX_DURATION_MS, Math.ceil(ms));
  } catch {
    return undefined;
  }
}

/** The reason of the signal itself, or what a function of Node makes of it. */
function isTheCancel(error: unknown): boolean {
  const isReason = (one: unknown) => isOneOf(one, [JobCancelledError]);
  if (isReason(error)) return true;
  try {
    return isReason((error as { cause?: unknown } | null | undefined)?.cause);
  } catch {
    return false;
  }
}

// a user's class may define Symbol.hasInstance, a thrown proxy may trap getPrototypeOf: both can throw
function isOneOf(error: unknown, classes: readonly ErrorClass[]): boolean {
  return classes.some((candidate) => {
    try {
      return error instanceof candidate;
    } catch {
      return false;
    }
  });
}

/** Whether a handler ruled about its job with this, by returning or by throwing it. */
export const isVerdict = (said: unknown): boolean => rulingOf(said) !== undefined;

// read with care: a mock or proxy may answer to every symbol, or throw
function rulingOf(said: unknown): Ruling | undefined {
  if (typeof said !== "object" || said === null) return undefined;
  try {
    const ruling = (said as Partial<Verdict>)[VERDICT];
    if (ruling?.verb === "snooze") {
      const { delayMs } = ruling;
      return typeof delayMs === "number" && delayMs >= 0 && delayMs <= MAX_DURATION_MS
        ? { verb: "snooze", delayMs }
        : undefined;
    }
    if (ruling?.verb !== "skip" && ruling?.verb !== "bury") return undefined;
    const { verb, reason } = ruling;
    return typeof reason === "string" ? { verb, reason } : undefined;
  } catch {
    return undefined;
  }
}
