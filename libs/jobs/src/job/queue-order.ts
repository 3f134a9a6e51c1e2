import { LIMIT_KEYS, type LimitOrder, type LimitRule, parseLimits } from "./limit.js";
import { OptionsCheck, isName } from "./options-check.js";
import { type PauseOptions, type PauseOrder, readPause } from "./pause.js";

/** What of a queue is meant. */
export interface QueuePart {
  /** One of its kinds; absent: all of it. */
  kind?: string;
  /** The jobs of this key alone, as the limit of the queue, or of the kind, reads it from their payloads. */
  key?: string;
  /** Which limit reads that key, if the queue, or the kind, has several with a key: where it stands in payloads. */
  keyPath?: string;
}

const MAX_KEY = 512;
const KEY = /^[^\0\p{Cs}]+$/u;
const NAME = "1 to 64 characters without control characters";

/** Checks the name of a queue. @throws OptionsError */
export function parseQueueName(queue: string): string {
  const check = new OptionsCheck("name of a queue");
  if (!isName(queue)) check.expected("queue", NAME, queue);
  check.done();
  return queue;
}

/** Checks what is to be paused, or resumed, and in whose name. @throws OptionsError with all problems */
export function parseQueueOrder(
  verb: "pause" | "resume",
  queue: string,
  options: PauseOptions & QueuePart,
): { part: QueuePart; order: PauseOrder } {
  const check = new OptionsCheck(`call of ${verb}`);
  if (!isName(queue)) check.expected("queue", NAME, queue);
  const allowed = [...(verb === "pause" ? ["by", "why", "until"] : []), "kind", "key", "keyPath"];
  const given = check.object("", options, allowed) ? options : {};
  const kind = check.name("kind", given.kind);
  const key = readKey(check, given.key);
  const keyPath = readKeyPath(check, given.keyPath, key !== undefined);
  const order = readPause(check, given);
  check.done();
  return {
    part: {
      ...(kind === undefined ? {} : { kind }),
      ...(key === undefined ? {} : { key }),
      ...(keyPath === undefined ? {} : { keyPath }),
    },
    order,
  };
}

function readKey(check: OptionsCheck, key: unknown): string | undefined {
  if (key === undefined) return undefined;
  // A limit reads as many characters of a longer one from payloads.
  const read =
    typeof key === "string" ? Array.from(key.slice(0, 2 * MAX_KEY)).slice(0, MAX_KEY) : [];
  const text = read.join("");
  return KEY.test(text) ? text : check.expected("key", "a text without NUL", key);
}

function readKeyPath(check: OptionsCheck, path: unknown, keyed: boolean): string | undefined {
  if (path === undefined) return undefined;
  if (typeof path !== "string" || path === "")
    return check.expected("keyPath", "where keys stand in payloads, as the limit names it", path);
  if (!keyed) check.add("keyPath: expected with key only, which is missing");
  return path;
}

/** Checks what is to bound a queue. @throws OptionsError with all problems */
export function parseLimitOrder(
  queue: string,
  order: LimitOrder,
): {
  kind: string | undefined;
  rules: readonly LimitRule[];
  by: string | null;
  why: string | null;
} {
  const check = new OptionsCheck("call of limit");
  if (!isName(queue)) check.expected("queue", NAME, queue);
  const known = ["kind", "by", "why", ...LIMIT_KEYS];
  const given: Partial<LimitOrder> = check.object("", order, known) ? order : {};
  const kind = check.name("kind", given.kind);
  const rules = parseLimits(check, given as Record<string, unknown>) ?? [];
  const { by, why } = readPause(check, { by: given.by, why: given.why } as PauseOptions);
  check.done();
  return { kind, rules, by, why };
}
