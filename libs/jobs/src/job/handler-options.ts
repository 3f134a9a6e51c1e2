import type { JobDefaults, ParsedDefaults } from "./defaults.js";
import { DEFAULTS_KEYS, parseDefaults } from "./defaults.js";
import { OptionsCheck } from "./options-check.js";

/** The options of `@JobHandler`; they yield to the definition's. */
export interface HandlerOptions extends JobDefaults {
  /** How many of its jobs run at once in this process; 1..10,000, default the queue's. */
  concurrency?: number;
}

/** {@link HandlerOptions} after checking; null where nothing was said. */
export interface ParsedHandlerOptions extends ParsedDefaults {
  readonly concurrency: number | null;
}

/** The most jobs of one queue or handler that may run at once in a process. */
export const MAX_CONCURRENCY = 10_000;

/** Checks the options of `@JobHandler`. @throws OptionsError with all problems. */
export function parseHandlerOptions(
  options: HandlerOptions = {},
  subject = "options of @JobHandler",
): ParsedHandlerOptions {
  const check = new OptionsCheck(subject);
  const known = ["concurrency", ...DEFAULTS_KEYS];
  const given = check.object("", options, known) ? options : ({} as Record<string, unknown>);
  const concurrency = check.integer("concurrency", given.concurrency, 1, MAX_CONCURRENCY) ?? null;
  const parsed = { concurrency, ...parseDefaults(check, given) };
  check.done();
  return Object.freeze(parsed);
}
