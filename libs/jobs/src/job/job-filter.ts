import { BadCursorError } from "./errors.js";
import { OptionsCheck, describe } from "./options-check.js";
import { JOB_STATES, type JobState } from "./state.js";

/** What to look for: a state, or a part of those that are queued: `scheduled` (due later), `retrying` (has failed before). */
export type ListedState = JobState | "scheduled" | "retrying";

/** Every {@link ListedState}. */
export const LISTED_STATES: readonly ListedState[] = [...JOB_STATES, "scheduled", "retrying"];

/** Which jobs to list; all that is said must hold. */
export interface JobFilter {
  /** One state, or several: jobs in any of them. */
  state?: ListedState | readonly ListedState[];
  queue?: string;
  kind?: string;
  key?: string;
  priority?: number;
  /** Created at that time or later. */
  createdSince?: Date;
  /** Created before that time. */
  createdBefore?: Date;
  /** Finished (or died) at that time or later. */
  finishedSince?: Date;
  /** Finished (or died) before that time. */
  finishedBefore?: Date;
  /** Whose error has this in its name or message, upper and lower case alike: the last one of dead letters, the newest 20 that are kept of others. */
  error?: string;
  /** Whose payload has this at that path. */
  payload?: PayloadMatch;
}

/** A string, a number or a boolean somewhere in a payload. */
export interface PayloadMatch {
  /** Names with dots between, and the numbers of items of lists: `customer.id`, `items.0.sku`. */
  path: string;
  /** A text that is written like a number or a boolean is that too: `"42"` finds 42. */
  value: string | number | boolean;
}

/** Which page of a list. */
export interface PageOptions {
  /** At most so many jobs; 1..200, default 50. */
  limit?: number;
  /** The `next` of the page before. */
  after?: string;
}

/** {@link JobFilter} after its check; null: not said. */
export interface ParsedJobFilter {
  readonly states: readonly ListedState[];
  readonly queue: string | null;
  readonly kind: string | null;
  readonly key: string | null;
  readonly priority: number | null;
  readonly createdSince: Date | null;
  readonly createdBefore: Date | null;
  readonly finishedSince: Date | null;
  readonly finishedBefore: Date | null;
  readonly error: string | null;
  readonly payload: { readonly path: readonly string[]; readonly value: string } | null;
}

const TIMES = ["createdSince", "createdBefore", "finishedSince", "finishedBefore"] as const;
const FILTERS = ["state", "queue", "kind", "key", "priority", ...TIMES, "error", "payload"];
const MAX_LIMIT = 200;
const DEFAULT_LIMIT = 50;
const KEY = /^[^\0\p{Cs}]{1,512}$/u;
const WORDS = /^[^\0\p{Cs}]{1,200}$/u;
const MOST_STEPS = 20;

/** Checks a filter and a page. @throws OptionsError with all problems, BadCursorError */
export function parseList(
  filter: unknown = {},
  page: unknown = {},
): { filter: ParsedJobFilter; limit: number; before: string | null } {
  const check = new OptionsCheck("list");
  const given = check.absentOr("filter", filter, FILTERS);
  const { limit, after } = check.absentOr("page", page, ["limit", "after"]);
  const [createdSince, createdBefore, finishedSince, finishedBefore] = TIMES.map(
    (name) => check.date(`filter.${name}`, given[name]) ?? null,
  ) as [Date | null, Date | null, Date | null, Date | null];
  const parsed = {
    states: states(check, given.state),
    queue: check.name("filter.queue", given.queue) ?? null,
    kind: check.name("filter.kind", given.kind) ?? null,
    key: key(check, given.key),
    priority: check.integer("filter.priority", given.priority, -100, 100) ?? null,
    createdSince,
    createdBefore,
    finishedSince,
    finishedBefore,
    error: error(check, given.error),
    payload: payload(check, given.payload),
  };
  inOrder(check, "created", createdSince, createdBefore);
  inOrder(check, "finished", finishedSince, finishedBefore);
  const most = check.integer("page.limit", limit, 1, MAX_LIMIT) ?? DEFAULT_LIMIT;
  check.done();
  return { filter: parsed, limit: most, before: after === undefined ? null : parseCursor(after) };
}

function states(check: OptionsCheck, value: unknown): readonly ListedState[] {
  if (value === undefined) return JOB_STATES;
  if (!Array.isArray(value)) {
    const one = check.word("filter.state", value, LISTED_STATES);
    return one === undefined ? [] : [one];
  }
  if (value.length === 0 || value.length > LISTED_STATES.length)
    check.add(`filter.state: expected 1..${LISTED_STATES.length} states, found ${value.length}`);
  const some = value.slice(0, LISTED_STATES.length).map((one: unknown, at) =>
    // An absent one would pass as not said.
    check.word(`filter.state[${at}]`, one ?? null, LISTED_STATES),
  );
  return [...new Set(some.filter((one) => one !== undefined))];
}

function key(check: OptionsCheck, value: unknown): string | null {
  if (value === undefined) return null;
  if (typeof value === "string" && value.length <= 1024 && KEY.test(value)) return value;
  const found = typeof value === "string" ? `${value.length} characters` : describe(value);
  check.add(`filter.key: expected 1..512 well-formed characters without NUL, found ${found}`);
  return null;
}

function error(check: OptionsCheck, value: unknown): string | null {
  if (value === undefined) return null;
  if (isWords(value)) return value;
  const found = typeof value === "string" ? `${value.length} characters` : describe(value);
  check.add(`filter.error: expected 1..200 well-formed characters without NUL, found ${found}`);
  return null;
}

function payload(check: OptionsCheck, given: unknown): ParsedJobFilter["payload"] {
  if (given === undefined || !check.object("filter.payload", given, ["path", "value"])) return null;
  const { path, value } = given as Partial<Record<"path" | "value", unknown>>;
  const steps = isWords(path) ? path.split(".") : [];
  if (steps.length === 0 || steps.length > MOST_STEPS || steps.includes(""))
    check.expected("filter.payload.path", `names with dots between, at most ${MOST_STEPS}`, path);
  if (steps.some((step) => /^\s*[+-]?\d+$/.test(step) && !/^(?:0|[1-9]\d{0,8})$/.test(step)))
    check.expected("filter.payload.path", "numbers of items as in items.0.sku", path);
  const scalar =
    isWords(value) || value === "" || typeof value === "boolean" || Number.isFinite(value);
  if (!scalar)
    check.expected(
      "filter.payload.value",
      "a string of at most 200 well-formed characters without NUL, a number or a boolean",
      value,
    );
  return { path: steps, value: scalar ? String(value) : "" };
}

const isWords = (value: unknown): value is string =>
  typeof value === "string" && value.length <= 400 && WORDS.test(value);

/** A range of no width is an empty one; one that runs backwards is a mistake. */
function inOrder(check: OptionsCheck, what: string, since: Date | null, before: Date | null): void {
  if (since !== null && before !== null && since > before)
    check.add(
      `filter.${what}Since: expected a time before filter.${what}Before (${before.toISOString()}), ` +
        `found a later one (${since.toISOString()}); are the two reversed?`,
    );
}

const CURSOR = /^[A-Za-z0-9_-]{2,32}$/;
const NUMBER = /^j(0|[1-9]\d{0,18})$/;
const MAX_BIGINT = "9223372036854775807";

/** What leads to the jobs older than this one; opaque to users. */
export const formatCursor = (number: string): string =>
  Buffer.from(`j${number}`, "latin1").toString("base64url");

/** Reads a cursor back. @throws BadCursorError unless it is exactly what {@link formatCursor} makes. */
export function parseCursor(text: unknown): string {
  if (typeof text === "string" && CURSOR.test(text)) {
    const number = NUMBER.exec(Buffer.from(text, "base64url").toString("latin1"))?.[1];
    const fits =
      number !== undefined && (number.length < MAX_BIGINT.length || number <= MAX_BIGINT);
    if (fits && formatCursor(number) === text) return number;
  }
  throw new BadCursorError(describe(text));
}
