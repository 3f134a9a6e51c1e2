import { type OptionsCheck, type PayloadMatch, parseJobId } from "nestjs-pg-jobs";
import type { AdminRole } from "../auth/roles.js";
import type { Schema } from "../openapi/schema.js";

/** What stands in a path, a parameter of a query, or a member of a body. */
export interface Field<T> {
  readonly schema: Schema;
  readonly about: string;
  /** A body without it is refused. */
  readonly required?: boolean;
  /** Who says it has to be of this role. */
  readonly role?: AdminRole;
  /** In a query: may be given several times, or with commas between. */
  readonly many?: boolean;
  /** Says to `check` what does not fit; undefined then, and when it is absent. */
  read(check: OptionsCheck, at: string, value: unknown): T | undefined;
}

/** Fields by name. */
export type Fields = Readonly<Record<string, Field<unknown>>>;

/** What was read of fields. */
export type ValuesOf<F> = { [K in keyof F]?: F[K] extends Field<infer T> ? T : never };

const NAME = "1..64 characters without control characters";
const KEY = /^[^\0\p{Cs}]{1,512}$/u;
const PART = /^[^\0\p{Cs}]{1,200}$/u;
const MAX_WORDS = 1_000;
const TIME = /^(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/;

/** The name of a queue, a kind or a schedule. */
export const name = (about: string): Field<string> => ({
  about,
  schema: { type: "string", minLength: 1, maxLength: 64, description: NAME },
  read: (check, at, value) => check.name(at, value),
});

/** The id of a job. */
export const jobId = (about: string): Field<string> => ({
  about,
  schema: { type: "string", pattern: "^(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,18})$" },
  read: (_check, _at, value) => {
    // What it throws has a code of its own.
    parseJobId(value as string);
    return value as string;
  },
});

/** The number of something, as text. */
export const number = (about: string): Field<string> => ({
  about,
  schema: { type: "string", pattern: "^[1-9][0-9]{0,17}$" },
  read: (check, at, value) =>
    typeof value === "string" && /^[1-9]\d{0,17}$/.test(value)
      ? value
      : check.expected(at, "a number of 1..18 digits", value),
});

export const key = (about: string): Field<string> => ({
  about,
  schema: { type: "string", minLength: 1, maxLength: 512 },
  read: (check, at, value) =>
    value === undefined || (typeof value === "string" && value.length <= 1_024 && KEY.test(value))
      ? value
      : check.expected(at, "1..512 characters without NUL", value),
});

/** A part of a text. */
export const part = (about: string): Field<string> => ({
  about,
  schema: { type: "string", minLength: 1, maxLength: 200 },
  read: (check, at, value) =>
    value === undefined || (typeof value === "string" && value.length <= 400 && PART.test(value))
      ? value
      : check.expected(at, "1..200 characters without NUL", value),
});

/** Text for people. */
export const words = (about: string): Field<string> => ({
  about,
  schema: { type: "string", maxLength: MAX_WORDS },
  read: (check, at, value) =>
    value === undefined ||
    (typeof value === "string" && value.length <= MAX_WORDS && !value.includes("\0"))
      ? value
      : check.expected(at, `at most ${MAX_WORDS} characters without NUL`, value),
});

export const integer = (about: string, min: number, max: number): Field<number> => ({
  about,
  schema: { type: "integer", minimum: min, maximum: max },
  read: (check, at, value) => check.integer(at, value, min, max),
});

/** Some of these words. */
export const anyOf = <W extends string>(about: string, known: readonly W[]): Field<W[]> => ({
  about,
  many: true,
  schema: { type: "array", items: { type: "string", enum: known }, minItems: 1 },
  read: (check, at, value) => {
    if (value === undefined) return undefined;
    const found = new Set<unknown>(Array.isArray(value) ? value : []);
    if (found.size === 0) return check.expected(at, `a list of some of ${known.join(", ")}`, value);
    // Each that is unknown is told of.
    if (found.size <= known.length)
      return [...found].flatMap((one) => check.word(at, one ?? null, known) ?? []);
    check.add(`${at}: expected at most ${known.length} different words, found ${found.size}`);
    return undefined;
  },
});

/** One of some words. */
export const oneOf = <W extends string>(about: string, known: readonly W[]): Field<W> => ({
  about,
  schema: { type: "string", enum: known },
  read: (check, at, value) => check.word(at, value, known),
});

/** A point in time, with its zone: what a bare number or day means, nobody knows. */
export const time = (about: string): Field<Date> => ({
  about,
  schema: { type: "string", format: "date-time" },
  read: (check, at, value) => {
    if (value === undefined) return undefined;
    const parts = typeof value === "string" && value.length <= 64 ? TIME.exec(value) : null;
    const [year, month, day] = (parts ?? []).slice(1, 4).map(Number);
    // Date reads the 31st of February as a day of March
    const exists = parts !== null && day! <= new Date(Date.UTC(year!, month!, 0)).getUTCDate();
    const date = exists ? new Date(value as string) : undefined;
    if (date === undefined || Number.isNaN(date.getTime()))
      return check.expected(at, "a time such as 2026-11-19T22:00:00Z", value);
    return check.date(at, date);
  },
});

const MATCH = /^([^:\0\p{Cs}]{1,200}):([^\0\p{Cs}]{0,200})$/u;

/** A place in a payload, and what stands there. */
export const payloadMatch = (about: string): Field<PayloadMatch> => ({
  about,
  schema: { type: "string", minLength: 2, maxLength: 401, pattern: "^[^:]+:" },
  read: (check, at, value) => {
    if (value === undefined) return undefined;
    const found = typeof value === "string" && value.length <= 802 ? MATCH.exec(value) : null;
    if (found) return { path: found[1]!, value: found[2]! };
    return check.expected(
      at,
      "names with dots between, a colon, and what stands there, such as customer.id:42",
      value,
    );
  },
});

/** Whatever JSON can say; what it has to be is said where it is used. */
export const json = (about: string, schema: Schema = {}): Field<unknown> => ({
  about,
  schema,
  read: (_check, _at, value) => value,
});

/** The same, but a body without it is refused. */
export const required = <T>(field: Field<T>): Field<T> => ({ ...field, required: true });

/** The same, of somebody of this role only. */
export const only = <T>(role: AdminRole, field: Field<T>): Field<T> => ({ ...field, role });
