import { BadCursorError } from "./errors.js";
import { OptionsCheck, describe } from "./options-check.js";

/** Which lines of a job's log. */
export interface LogPageOptions {
  /** Those of one attempt; absent: of all. */
  attempt?: number;
  /** At most so many; 1..1000, default 200. */
  limit?: number;
  /** The `next` of the page before. */
  after?: string;
}

const MAX_INT = 2_147_483_647;
const MAX_LIMIT = 1_000;
const DEFAULT_LIMIT = 200;

/** Checks which lines are asked for. @throws OptionsError with all problems, BadCursorError */
export function parseLogPage(page: unknown = {}): {
  attempt: number | null;
  limit: number;
  after: { attempt: number; line: number };
} {
  const check = new OptionsCheck("logs");
  const { attempt, limit, after } = check.absentOr("page", page, ["attempt", "limit", "after"]);
  const parsed = {
    attempt: check.integer("page.attempt", attempt, 1, MAX_INT) ?? null,
    limit: check.integer("page.limit", limit, 1, MAX_LIMIT) ?? DEFAULT_LIMIT,
  };
  check.done();
  return { ...parsed, after: after === undefined ? { attempt: 0, line: 0 } : parse(after) };
}

const CURSOR = /^[A-Za-z0-9_-]{2,32}$/;
const PLACE = /^l(\d{1,10})\.(\d{1,10})$/;

/** What leads to the lines after this one; opaque to users. */
export const formatLogCursor = ({ attempt, line }: { attempt: number; line: number }): string =>
  Buffer.from(`l${attempt}.${line}`, "latin1").toString("base64url");

function parse(text: unknown): { attempt: number; line: number } {
  if (typeof text === "string" && CURSOR.test(text)) {
    const found = PLACE.exec(Buffer.from(text, "base64url").toString("latin1"));
    const place = { attempt: Number(found?.[1]), line: Number(found?.[2]) };
    const fits = place.attempt <= MAX_INT && place.line <= MAX_INT;
    if (fits && formatLogCursor(place) === text) return place;
  }
  throw new BadCursorError(describe(text));
}
