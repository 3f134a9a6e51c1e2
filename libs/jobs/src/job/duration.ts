import { OptionsError } from "./errors.js";

/** A length of time: ms as a number, or `'500ms'`, `'90s'`, `'5m'`, `'1.5h'`, `'7d'`. */
export type Duration = number | string;

/** The longest duration accepted, in ms: ten years of 365.25 days. */
export const MAX_DURATION_MS = 315_576_000_000;

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const TEXT = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** What a duration may look like; the words used in error messages. */
export const DURATION_FORMS =
  "ms as a number, or '500ms', '90s', '5m', '2h', '7d'; at most 10 years";

/**
 * The whole ms (rounded, at least 1) of a duration.
 * @param what names the option in the message, default `duration`.
 * @throws OptionsError unless 0 < duration ≤ 10 years.
 */
export function durationMs(duration: Duration, what = "duration"): number {
  const ms = readDuration(duration);
  if (ms !== undefined && ms > 0) return ms;
  throw new OptionsError(what, [`expected ${DURATION_FORMS}, found ${shown(duration)}`]);
}

/** The whole ms of a duration, 0 for 0; undefined when it is not one. */
export function readDuration(duration: unknown): number | undefined {
  const ms = typeof duration === "string" ? fromText(duration) : duration;
  if (typeof ms !== "number" || !(ms >= 0 && ms <= MAX_DURATION_MS)) return undefined;
  return ms === 0 ? 0 : Math.max(1, Math.round(ms));
}

function fromText(text: string): number | undefined {
  const match = text.length <= 32 ? TEXT.exec(text) : null;
  return match ? Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS] : undefined;
}

function shown(found: unknown): string {
  if (typeof found === "number") return String(found);
  if (typeof found !== "string") return found === null ? "null" : typeof found;
  return /^\d+$/.test(found) ? `'${found.slice(0, 32)}' without a unit` : `'${found.slice(0, 32)}'`;
}
