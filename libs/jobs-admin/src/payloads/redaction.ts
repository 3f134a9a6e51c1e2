import type { OptionsCheck } from "nestjs-pg-jobs";
import { Standing } from "./standing.js";

/** What is shown instead. */
export const REDACTED = "[redacted]";

const PATH = /^(?=.{1,200}$)(?:payload|result|\*{1,2})(?:\.[^.\p{Cc}\p{Cs}]+)*$/u;
const MOST_PATHS = 100;

/** Told of each value that a path leads to; answers what stands there instead. */
type Visit = (value: unknown, place: string) => unknown;

/**
 * Replaces what stands at some paths: names with dots between, the first `payload`, `result` or `*` for both; `*` is any
 * one name, `**` any number of them. A list is gone through: `payload.cards.number` is that of each card.
 */
export class Redaction {
  /** Whether there is anything to redact. */
  readonly some: boolean;
  readonly #begin: Standing;

  constructor(paths: readonly string[] = []) {
    this.some = paths.length > 0;
    this.#begin = Standing.at(paths.map((path) => path.split(".")));
  }

  /** The value with what must not be seen replaced; the value itself is left alone. */
  of(root: "payload" | "result", value: unknown): unknown {
    return this.#walk(root, value, () => REDACTED);
  }

  /** Where a value has the replacement in place of what was there; undefined: nowhere. */
  placeholderIn(root: "payload" | "result", value: unknown): string | undefined {
    let found: string | undefined;
    this.#walk(root, value, (here, place) => {
      if (here === REDACTED) found ??= place;
      return here;
    });
    return found;
  }

  /** The place on the way to what a path of names and numbers leads to that is not shown; undefined: all of it is. */
  hiddenOn(path: string): string | undefined {
    if (!this.some) return undefined;
    const names = path.split(".");
    const at = this.#along(names).findIndex((here) => here.some(({ ends }) => ends));
    return at < 0 ? undefined : names.slice(0, at + 1).join(".");
  }

  /** Whether something in what a path leads to may not be shown. */
  hiddenBelow(path: string): boolean {
    const last = this.#along(path.split(".")).at(-1)!;
    return this.some && last.some(({ leads }) => leads);
  }

  /** How far all paths have been followed, behind each name on this way. */
  #along(names: readonly string[]): Standing[][] {
    const way: Standing[][] = [];
    let here = [this.#begin];
    for (const [at, name] of names.entries()) {
      // Each is made once, so that a set of them stays small, however long the path is.
      here = [...new Set(here.flatMap((one) => (at > 0 ? behind(one, name) : [one.member(name)])))];
      way.push(here);
    }
    return way;
  }

  #walk(root: string, value: unknown, visit: Visit): unknown {
    return walk(value, this.#begin.member(root), root, visit);
  }
}

/** A number, as PostgreSQL reads them, is the name of a member, or an item of a list; below 0 counted from its end. */
const INDEX = /^ *[+-]?\d+$/;

function behind(standing: Standing, name: string): Standing[] {
  if (!INDEX.test(name)) return [standing.member(name)];
  const index = Number(name);
  const item = index < 0 ? standing.someItem() : standing.item(index);
  return [standing.member(name), item];
}

function walk(value: unknown, standing: Standing, place: string, visit: Visit): unknown {
  if (standing.ends) return visit(value, place);
  if (!standing.leads || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value))
    return value.map((item: unknown, index) =>
      walk(item, standing.item(index), `${place}[${index}]`, visit),
    );
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      walk(item, standing.member(name), `${place}.${name}`, visit),
    ]),
  );
}

/** Says to `check` which paths are none. */
export function checkRedaction(check: OptionsCheck, given: unknown): void {
  if (given === undefined) return;
  if (!Array.isArray(given) || given.length > MOST_PATHS) {
    check.expected("redact", `a list of at most ${MOST_PATHS} paths`, given);
    return;
  }
  given.forEach((path: unknown, index) => {
    if (typeof path !== "string" || !PATH.test(path))
      check.expected(
        `redact[${index}]`,
        "a path such as 'payload.card.number', 'result.token' or '*.password'",
        path,
      );
  });
}
