import { describe, nearest } from "./options-check.js";

/** Says that no queue has this name yet, and which one may have been meant. */
export function unknownQueue(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  const advice =
    near !== undefined
      ? `did you mean ${describe(near)}?`
      : known.length > 0
        ? `known are ${known.slice(0, 10).map(describe).join(", ")}${known.length > 10 ? ", …" : ""}`
        : "there is none yet";
  return `expected a queue that has had a job or a worker, found ${describe(name)}; ${advice}`;
}
