import { types } from "node:util";
import { NotJsonError } from "./errors.js";
import { pathText } from "./json-path.js";

/** The deepest nesting of arrays and objects that is stored. */
export const MAX_JSON_DEPTH = 100;

// a value that refers to one array many times can be small in memory and endless as text
const MAX_NODES = 10_000_000;
const MAX_RESULT_NODES = 1_000_000;

interface Fault {
  readonly keys: PropertyKey[];
  readonly found: string;
  readonly advice?: string;
}

interface Walk {
  nodes: number;
  /** The least that the text will have, in bytes; a walk that finds more than `limit` ends there. */
  bytes: number;
  readonly limit: number;
  /** Also look into strings and keys; only when the text says that one of them is suspect. */
  readonly strings: boolean;
}

/**
 * The JSON text of a payload, as PostgreSQL's jsonb takes it; `undefined` is `{}`.
 * Class instances count as their own enumerable properties, unless they are built-in (Date, Map …)
 * or have a `toJSON`: the handler would get something else than was sent. `undefined` properties go.
 * @param root begins the path in messages, default `payload`.
 * @param limit what is surely longer, in bytes, is not made into text; what is made may still be longer.
 * @throws NotJsonError with the path of what JSON cannot carry; TooLong.
 */
export function jsonText(value: unknown, root = "payload", limit = Infinity): string {
  if (value === undefined) return "{}";
  let fault: Fault | undefined;
  try {
    fault = walk(value, 1, { nodes: 0, bytes: 0, limit, strings: false });
    if (!fault) {
      const text = JSON.stringify(value);
      // escapes appear for NUL and lone surrogates, but also where a string spells a backslash
      if (!text.includes("\\u0000") && !text.includes("\\ud")) return text;
      fault = walk(value, 1, { nodes: 0, bytes: 0, limit, strings: true });
      if (!fault) return text;
    }
  } catch (error) {
    if (error instanceof TooLong) throw error;
    const found =
      error instanceof RangeError ? "more than fits in a string" : "a getter or proxy that throws";
    fault = { keys: [], found };
  }
  throw new NotJsonError(pathText(root, fault.keys.toReversed()), fault.found, fault.advice);
}

class TooLong extends Error {}

/**
 * The JSON text of a result; null for `undefined`. For what JSON cannot carry, or what is longer than `limit` bytes of
 * UTF-8, the problem instead.
 * Handlers return what they have read from databases: here a Date, like all that has a `toJSON`, is what that gives.
 */
export function resultJson(
  value: unknown,
  limit: number,
): { text: string | null; problem?: undefined } | { text?: undefined; problem: string } {
  if (value === undefined) return { text: null };
  try {
    const text = resultText(value, limit);
    // A character has at most three bytes, so that most results need no counting.
    if (text.length * 3 > limit && Buffer.byteLength(text) > limit) throw new TooLong();
    return { text };
  } catch (error) {
    if (error instanceof NotJsonError) return { problem: error.message };
    const said = error instanceof Error ? `: ${error.message}` : "";
    if (!(error instanceof TooLong))
      return { problem: `Expected JSON at result, found a getter or toJSON() that throws${said}` };
    return {
      problem: `Expected a result of at most ${limit} bytes, found a longer one. Store the data elsewhere and return a reference, or raise resultLimit.`,
    };
  }
}

function resultText(value: unknown, limit: number): string {
  try {
    return jsonText(value, "result", limit);
  } catch (error) {
    if (error instanceof TooLong) throw error;
    return jsonText(withToJson(value, 1, { nodes: 0, limit }), "result", limit);
  }
}

/** A copy in which every `toJSON` has been called; what is too deep or too large stays, to be refused. */
function withToJson(
  value: unknown,
  depth: number,
  seen: { nodes: number; readonly limit: number },
): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_JSON_DEPTH || ++seen.nodes > MAX_RESULT_NODES) return value;
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function" && !Buffer.isBuffer(value)) {
    const json: unknown = toJSON.call(value);
    // Refused below; but nobody will ever wait for it, and an unheeded rejection ends the process.
    if (types.isPromise(json)) json.catch(() => undefined);
    return withToJson(json, depth + 1, seen);
  }
  // With a comma each, so many are too long whatever they are.
  if (Array.isArray(value) && value.length > seen.limit) throw new TooLong();
  if (Array.isArray(value)) return value.map((item) => withToJson(item, depth + 1, seen));
  if (Object.prototype.toString.call(value) !== "[object Object]") return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, withToJson(item, depth + 1, seen)]),
  );
}

/** The text as PostgreSQL can store it: NUL and lone surrogates become U+FFFD, at most `max` characters (UTF-16). */
export function safeText(text: string, max: number): string {
  let safe = text;
  if (text.length > max) {
    const split = /[\uD800-\uDBFF]/.test(text[max - 2] ?? "");
    safe = `${text.slice(0, split ? max - 2 : max - 1)}…`;
  }
  safe = safe.replaceAll("\0", "\uFFFD");
  return safe.toWellFormed();
}

function walk(value: unknown, depth: number, state: Walk): Fault | undefined {
  count(typeof value === "string" ? value.length + 2 : 1, state);
  switch (typeof value) {
    case "string":
      return state.strings ? textFault(value, "a string") : undefined;
    case "number":
      return Number.isFinite(value) ? undefined : { keys: [], found: String(value) };
    case "boolean":
      return undefined;
    case "object":
      if (value === null) return undefined;
      if (depth > MAX_JSON_DEPTH) {
        return {
          keys: [],
          found: `a nesting deeper than ${MAX_JSON_DEPTH}, or a circular reference`,
        };
      }
      return Array.isArray(value)
        ? walkArray(value, depth, state)
        : walkObject(value as Record<string, unknown>, depth, state);
    case "undefined":
      return { keys: [], found: "undefined or a hole in an array", advice: "Send null instead." };
    case "bigint":
      return { keys: [], found: "a BigInt", advice: "Send it as a string instead." };
    default:
      return { keys: [], found: `a ${typeof value}` };
  }
}

/** UTF-8 has at least a byte for each UTF-16 unit. */
function count(bytes: number, state: Walk): void {
  if ((state.bytes += bytes) > state.limit) throw new TooLong();
}

function walkArray(array: readonly unknown[], depth: number, state: Walk): Fault | undefined {
  if (typeof (array as { toJSON?: unknown }).toJSON === "function") return toJsonFault();
  if ((state.nodes += array.length) > MAX_NODES) return tooManyFault();
  for (let i = 0; i < array.length; i++) {
    const fault = walk(array[i], depth + 1, state);
    if (fault) return at(i, fault);
  }
  return undefined;
}

function walkObject(
  object: Record<string, unknown>,
  depth: number,
  state: Walk,
): Fault | undefined {
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    const fault = instanceFault(object);
    if (fault) return fault;
  }
  const symbols = Object.getOwnPropertySymbols(object);
  if (symbols.length > 0) return { keys: [symbols[0]!], found: "a symbol as a key" };
  const keys = Object.keys(object);
  if ((state.nodes += keys.length) > MAX_NODES) return tooManyFault();
  for (const key of keys) {
    const value = object[key];
    if (value === undefined) continue;
    count(key.length + 3, state);
    const fault =
      (state.strings ? textFault(key, "a key") : undefined) ?? walk(value, depth + 1, state);
    if (fault) return at(key, fault);
  }
  return undefined;
}

function instanceFault(object: object): Fault | undefined {
  if (types.isDate(object)) {
    return { keys: [], found: "a Date", advice: "Send date.toISOString() instead." };
  }
  if (Buffer.isBuffer(object)) {
    return { keys: [], found: "a Buffer", advice: "Send buffer.toString('base64') instead." };
  }
  // [object Map], [object Uint8Array], [object Number], [object Promise] … and whoever names itself
  const tag = Object.prototype.toString.call(object).slice(8, -1);
  if (tag === "Promise") return { keys: [], found: "a Promise", advice: "Await it first." };
  if (tag !== "Object") return { keys: [], found: `an instance of ${tag.slice(0, 64)}` };
  return typeof (object as { toJSON?: unknown }).toJSON === "function" ? toJsonFault() : undefined;
}

function textFault(text: string, what: string): Fault | undefined {
  if (text.includes("\0")) return { keys: [], found: `${what} with a NUL character` };
  if (!text.isWellFormed()) return { keys: [], found: `${what} with a lone surrogate` };
  return undefined;
}

function at(key: PropertyKey, fault: Fault): Fault {
  fault.keys.push(key);
  return fault;
}

function toJsonFault(): Fault {
  const advice = "Send what toJSON() returns instead.";
  return { keys: [], found: "an object with a toJSON method", advice };
}

function tooManyFault(): Fault {
  return { keys: [], found: `more than ${MAX_NODES} values` };
}
