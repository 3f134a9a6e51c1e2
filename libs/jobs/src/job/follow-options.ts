import { OptionsCheck } from "./options-check.js";
import { isSignal } from "./result-options.js";

/** The options of `inspector.follow`. */
export interface FollowOptions {
  /** Ends it when it aborts. */
  signal?: AbortSignal;
  /** Lines behind this one only: the `after` of a line that was told before, or the `next` of a page of logs. */
  after?: string;
}

/** @throws OptionsError with all problems. */
export function parseFollowOptions(options?: FollowOptions): {
  signal: AbortSignal | null;
  after: string | undefined;
} {
  const check = new OptionsCheck("options of follow");
  const { signal, after } = check.absentOr("", options, ["signal", "after"]);
  if (signal !== undefined && !isSignal(signal)) check.expected("signal", "an AbortSignal", signal);
  check.done();
  return {
    signal: (signal as AbortSignal | undefined) ?? null,
    after: after as string | undefined,
  };
}
