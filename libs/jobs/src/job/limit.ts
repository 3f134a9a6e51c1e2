import type { Duration } from "./duration.js";
import type { OptionsCheck } from "./options-check.js";
import type { PauseView } from "./pause.js";

/** How many jobs run at once, in all processes together. */
export interface LimitOptions {
  /** 1..1,000,000. */
  max: number;
  /**
   * Where in the payload the key stands, e.g. `'tenantId'` or `'customer.id'`: so many for each value that is found
   * there. A job that has none there is not counted. Absent: for all of them together.
   */
  key?: string;
}

/** How many jobs start in any window. */
export interface RateOptions {
  /** 1..1,000,000. A tenth of them may start at once, the others follow evenly. */
  max: number;
  /** The window; 100 ms..30 d. */
  per: Duration;
  /** Like that of {@link LimitOptions}. */
  key?: string;
}

/** What bounds the jobs of a kind or a queue. */
export interface Limits {
  /** Held over all processes; one without a key, and one for each key that is named. */
  limit?: LimitOptions | readonly LimitOptions[];
  /** The same for how many start in a window. */
  rate?: RateOptions | readonly RateOptions[];
}

/** What holds for all jobs, or for each key; checked. */
export interface LimitRule {
  /** `''`: all jobs together. */
  readonly keyPath: string;
  /** Null: any number at once. */
  readonly max: number | null;
  /** Null: no rate; else so many in any {@link LimitRule.rateMs}. */
  readonly rate: number | null;
  readonly rateMs: number | null;
}

/** A limit as it stands, and what it counts. */
export interface LimitView {
  /** Null: all kinds of the queue. */
  kind: string | null;
  /** Null: all jobs together; else for each value that payloads have there. */
  key: string | null;
  /** So many at once; null: any number. */
  limit: number | null;
  /** So many starts in any window; null: any number. */
  rate: { max: number; perMs: number } | null;
  /** Attempts that are current under it; those of a process that died until their leases are over. */
  running: number;
  /** Jobs that were set aside until their key has room, counted up to 10,001. */
  waiting: number;
  /** When it was last changed, by whom and why. */
  at: Date;
  by: string | null;
  why: string | null;
  /** Keys that are paused, at most 1,000 of them. */
  paused: ({ key: string } & PauseView)[];
}

/** Who changes a limit, and why. */
export interface LimitOrder extends Limits {
  /** One of the queue's kinds; absent: all of it. */
  kind?: string;
  /** Who says so, for those who look. */
  by?: string;
  /** Why, for those who look. */
  why?: string;
}

/** The keys of {@link Limits}. */
export const LIMIT_KEYS = ["limit", "rate"] as const;

const MOST = 1_000_000;
/** Each claim of the queue looks at all of them. */
const MOST_RULES = 100;
const LEAST_WINDOW_MS = 100;
const LONGEST_WINDOW_MS = 30 * 86_400_000;
/** Names of properties between dots. */
const PATH = /^(?=.{1,200}$)[^.\p{Cc}\p{Cs}]+(?:\.[^.\p{Cc}\p{Cs}]+)*$/u;

/** Checks {@link Limits}; null: nothing was said. */
export function parseLimits(
  check: OptionsCheck,
  given: Record<string, unknown>,
  at = "",
): readonly LimitRule[] | null {
  if (given.limit === undefined && given.rate === undefined) return null;
  const rules = new Map<
    string,
    { max: number | null; rate: number | null; rateMs: number | null }
  >();
  const ruleOf = (keyPath: string) => {
    const known = rules.get(keyPath) ?? { max: null, rate: null, rateMs: null };
    rules.set(keyPath, known);
    return known;
  };
  for (const [place, one] of listed(check, given.limit, `${at}limit`)) {
    if (!check.object(place, one, ["max", "key"])) continue;
    const max = required(check, `${place}.max`, one.max);
    const rule = ruleOf(pathOf(check, place, one.key));
    if (rule.max !== null) check.add(`${place}: expected one limit for each key, found two`);
    rule.max = max ?? 1;
  }
  for (const [place, one] of listed(check, given.rate, `${at}rate`)) {
    if (!check.object(place, one, ["max", "per", "key"])) continue;
    const rate = required(check, `${place}.max`, one.max);
    if (one.per === undefined)
      check.expected(`${place}.per`, "the length of the window, such as '1m'", one.per);
    const rateMs = check.duration(`${place}.per`, one.per, LEAST_WINDOW_MS, LONGEST_WINDOW_MS);
    const rule = ruleOf(pathOf(check, place, one.key));
    if (rule.rate !== null) check.add(`${place}: expected one rate for each key, found two`);
    rule.rate = rate ?? 1;
    rule.rateMs = rateMs ?? LEAST_WINDOW_MS;
  }
  return Object.freeze(
    [...rules]
      .map(([keyPath, rule]) => Object.freeze({ keyPath, ...rule }))
      .sort((a, b) => (a.keyPath < b.keyPath ? -1 : 1)),
  );
}

/** What both say together: of `limit`, and of `rate`, the first that says any. */
export function eitherLimits(
  first: readonly LimitRule[] | null,
  second: readonly LimitRule[] | null,
): readonly LimitRule[] | null {
  if (first === null || second === null) return first ?? second;
  const limits = [first, second].find((rules) => rules.some(({ max }) => max !== null)) ?? [];
  const rates = [first, second].find((rules) => rules.some(({ rate }) => rate !== null)) ?? [];
  const paths = new Set(
    [...limits.filter(({ max }) => max !== null), ...rates.filter(({ rate }) => rate !== null)].map(
      ({ keyPath }) => keyPath,
    ),
  );
  return Object.freeze(
    [...paths].sort().map((keyPath) => {
      const { rate = null, rateMs = null } = rates.find((rule) => rule.keyPath === keyPath) ?? {};
      const max = limits.find((rule) => rule.keyPath === keyPath)?.max ?? null;
      return Object.freeze({ keyPath, max, rate, rateMs });
    }),
  );
}

/** The options of each item, with the place where it stands. */
function listed(check: OptionsCheck, value: unknown, at: string): [string, unknown][] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) return [[at, value]];
  if (value.length > MOST_RULES) {
    check.add(`${at}: expected at most ${MOST_RULES}, found ${value.length}`);
    return [];
  }
  return value.map((one: unknown, index) => [`${at}[${index}]`, one]);
}

function required(check: OptionsCheck, at: string, value: unknown): number | undefined {
  if (value === undefined) return check.expected(at, `an integer 1..${MOST}`, value);
  return check.integer(at, value, 1, MOST);
}

function pathOf(check: OptionsCheck, place: string, key: unknown): string {
  if (key === undefined) return "";
  if (typeof key === "string" && PATH.test(key)) return key;
  check.expected(
    `${place}.key`,
    "where it stands in the payload: names with dots between, such as 'customer.id', at most 200 characters",
    key,
  );
  return "";
}
