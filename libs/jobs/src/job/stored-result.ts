import { resultJson, safeText } from "./json.js";

// A job whose result cannot be stored has succeeded all the same. In the place of its result stands why, so that nobody
// takes it for one that has returned nothing.

const KEY = "nestjs-pg-jobs:result-not-stored";
/** As JSON.stringify and PostgreSQL write it. */
const BEGINS = `{"${KEY}":`;
const MAX_REASON = 1_000;
const RESERVED = `Expected a result of the handler's own, found an object with "${KEY}", which is reserved.`;

/** The JSON text that is stored for what a handler has returned; with a problem it says only that. */
export function storedResult(
  value: unknown,
  limit: number,
): { text: string | null; problem?: string } {
  const { problem, text } = resultJson(value, limit);
  if (problem !== undefined) return { text: unstored(problem), problem };
  return whyUnstored(text) === undefined
    ? { text }
    : { text: unstored(RESERVED), problem: RESERVED };
}

/** What is stored for a result that PostgreSQL refuses; any database takes it. */
export const unstorable = (encoding: string | undefined): string =>
  unstored(
    encoding === undefined
      ? "Expected a result that the database can store, found one that PostgreSQL refuses."
      : `Expected a result that fits the encoding of the database, found a character that ${encoding} lacks.`,
  );

/** Why there is no result, if that is what this JSON text says in its place. */
export function whyUnstored(text: string | null): string | undefined {
  if (!text?.startsWith(BEGINS)) return undefined;
  const said = JSON.parse(text) as Record<string, unknown>;
  const reason = said[KEY];
  return typeof reason === "string" && Object.keys(said).length === 1 ? reason : undefined;
}

const unstored = (reason: string): string =>
  JSON.stringify({ [KEY]: safeText(reason, MAX_REASON) });
