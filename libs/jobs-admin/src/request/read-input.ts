import { OptionsCheck, OptionsError } from "nestjs-pg-jobs";
import { ProblemException, told } from "../problem.js";
import type { Fields } from "./field.js";
import type { Body } from "./bodies.js";
import { type RawRequest, addressOf } from "./raw-request.js";

const INTEGER = /^-?\d{1,15}$/;
const LONGEST_QUERY = 8_192;
/** More names than that were never meant: telling of each would take long. */
const MOST_NAMES = 50;

/** Reads what stands in a path. @throws ProblemException with all that is wrong, BadJobIdError */
export function readParameters(given: Readonly<Record<string, string>>, fields: Fields): void {
  checked("path", "PATH_INVALID", (check) => {
    for (const [name, field] of Object.entries(fields)) field.read(check, name, given[name]);
  });
}

/** Reads a query; what a framework made of it depends on the framework. @throws ProblemException with all that is wrong */
export function readQuery(request: RawRequest, fields: Fields): Record<string, unknown> {
  return checked("query", "QUERY_INVALID", (check) => {
    const { query } = addressOf(request);
    if (query.length > LONGEST_QUERY) {
      check.add(`query: expected at most ${LONGEST_QUERY} characters, found ${query.length}`);
      return {};
    }
    const given = new URLSearchParams(query);
    if (!known(check, "", [...new Set(given.keys())], fields)) return {};
    return Object.fromEntries(
      Object.entries(fields).map(([name, field]) => {
        const texts = given.getAll(name);
        if (field.many) {
          const all = texts.flatMap((text) => text.split(","));
          return [name, field.read(check, name, all.length === 0 ? undefined : all)];
        }
        if (texts.length > 1) check.add(`${name}: expected once, found ${texts.length} times`);
        const number = field.schema.type === "integer" && INTEGER.test(texts[0] ?? "");
        return [name, field.read(check, name, number ? Number(texts[0]) : texts[0])];
      }),
    );
  });
}

/** Reads a body, if there is one. @throws ProblemException with all that is wrong */
export function readBody(
  { type, value }: Body,
  fields: Fields | undefined,
): Record<string, unknown> {
  return checked("body", "BODY_INVALID", (check) => {
    if (fields === undefined) {
      if (type !== undefined) check.add("body: expected none here, found one");
      return {};
    }
    const given = type === undefined ? {} : objectOf(check, value);
    if (!known(check, "body", Object.keys(given), fields)) return {};
    return Object.fromEntries(
      Object.entries(fields).map(([name, field]) => {
        const at = `body.${name}`;
        const said = Object.hasOwn(given, name) ? given[name] : undefined;
        if (field.required && said === undefined)
          check.add(`${at}: expected it to be said, if only as null, found nothing`);
        return [name, field.read(check, at, said)];
      }),
    );
  });
}

function objectOf(check: OptionsCheck, value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  check.expected("body", "an object", value);
  return {};
}

/** Whether it is worth while to look at what these names have; unknown ones answer "did you mean". */
function known(check: OptionsCheck, at: string, names: string[], fields: Fields): boolean {
  const expected = Object.keys(fields);
  if (names.length > MOST_NAMES)
    check.add(`${at || "query"}: expected at most ${MOST_NAMES} names, found ${names.length}`);
  else if (expected.length > 0)
    check.object(at, Object.fromEntries(names.map((name) => [name, true])), expected);
  else if (names.length > 0) check.expected(at || "query", "no parameters here", names[0]);
  return names.length <= MOST_NAMES;
}

function checked<T>(subject: string, code: string, read: (check: OptionsCheck) => T): T {
  const check = new OptionsCheck(subject);
  const found = read(check);
  try {
    check.done();
  } catch (error) {
    const { detail, problems } = told((error as OptionsError).problems);
    throw new ProblemException(400, code, detail, { problems });
  }
  return found;
}
