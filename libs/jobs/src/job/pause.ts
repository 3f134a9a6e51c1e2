import { OptionsCheck } from "./options-check.js";

/** Who pauses something, why, and until when. */
export interface PauseOptions {
  /** Who says so, for those who look. */
  by?: string;
  /** Why, for those who look. */
  why?: string;
  /** It goes on by itself then; absent: when it is resumed. */
  until?: Date;
}

/** The same, checked; null: nobody says, and until it is resumed. */
export interface PauseOrder {
  by: string | null;
  why: string | null;
  until: Date | null;
}

/** A pause as it stands. */
export interface PauseView extends PauseOrder {
  at: Date;
}

const MAX_WORDS = 1_000;
/** The clock of the database decides; ours may be off by so much. */
const SKEW_MS = 60_000;

/** Says to `check` what does not fit. */
export function readPause(check: OptionsCheck, options: PauseOptions): PauseOrder {
  const words = (at: "by" | "why"): string | null => {
    const value: unknown = options[at];
    if (value === undefined) return null;
    if (typeof value === "string" && value.length <= MAX_WORDS && !value.includes("\0"))
      return value;
    check.expected(at, `at most ${MAX_WORDS} characters without NUL`, value);
    return null;
  };
  const until = check.date("until", options.until) ?? null;
  if (until !== null && until.getTime() < Date.now() - SKEW_MS)
    check.expected("until", "a time to come", until);
  return { by: words("by"), why: words("why"), until };
}

/** Checks who pauses a schedule, why, and until when. @throws OptionsError with all problems */
export function parsePause(options: PauseOptions): PauseOrder {
  const check = new OptionsCheck("options of pause");
  const order = readPause(check, check.object("", options, ["by", "why", "until"]) ? options : {});
  check.done();
  return order;
}
