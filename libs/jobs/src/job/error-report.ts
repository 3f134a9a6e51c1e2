import { inspect } from "node:util";
import { type PayloadIssue, PayloadInvalidError } from "./errors.js";
import { safeText } from "./json.js";

/** What was thrown, as plain data that jsonb can store; see {@link reportError} for the limits. */
export interface ErrorReport {
  /** The name of the error, or of its class when it never said one; `NonError` for anything else. */
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  readonly code?: string;
  readonly cause?: ErrorReport;
  /** What the schema said of a payload that does not fit; in what is stored beside the payload only. */
  readonly issues?: readonly PayloadIssue[];
  /** The errors of an AggregateError. */
  readonly errors?: readonly ErrorReport[];
}

const MAX_NAME = 200;
const MAX_MESSAGE = 10_000;
const MAX_STACK = 20_000;
const MAX_DEPTH = 10;
const MAX_ERRORS = 10;
const MAX_REPORTS = 32;
const MAX_ISSUES = 20;
const MAX_ISSUE_MESSAGE = 500;

/**
 * A report of anything that can be thrown. Never throws. Name ≤ 200, message ≤ 10,000, stack ≤ 20,000
 * characters; causes ≤ 10 deep; ≤ 10 errors of an AggregateError; ≤ 32 errors in all.
 */
export function reportError(thrown: unknown): ErrorReport {
  return reportWith(thrown, false);
}

/**
 * The same with what a schema said of the payload (≤ 20 issues of ≤ 500 characters), which may quote it. For the
 * place where the payload itself is stored: whoever may read the one may read the other, and needs it to mend the job.
 * What observers and logs get is {@link reportError}.
 */
export function reportBesidePayload(thrown: unknown): ErrorReport {
  return reportWith(thrown, true);
}

function reportWith(thrown: unknown, issues: boolean): ErrorReport {
  try {
    return report(thrown, 0, { left: MAX_REPORTS, above: [], issues });
  } catch {
    return { name: "NonError", message: "something that cannot be read was thrown" };
  }
}

interface Reach {
  left: number;
  /** The errors this one is the cause of: a circle ends there. */
  readonly above: readonly unknown[];
  readonly issues: boolean;
}

function report(thrown: unknown, depth: number, reach: Reach): ErrorReport {
  reach.left--;
  if (typeof thrown !== "object" || thrown === null) return nonError(thrown);
  const message = read(thrown, "message");
  const stack = read(thrown, "stack");
  if (typeof message !== "string" && typeof stack !== "string") return nonError(thrown);
  const text = typeof message === "string" ? message : "";
  const code = read(thrown, "code");
  return {
    name: nameOf(thrown),
    message: safeText(text, MAX_MESSAGE),
    ...(typeof stack === "string" && { stack: stackText(stack, text) }),
    ...((typeof code === "string" || typeof code === "number") && {
      code: safeText(String(code), MAX_NAME),
    }),
    ...(reach.issues &&
      code === "PAYLOAD_INVALID" &&
      thrown instanceof PayloadInvalidError && { issues: issuesOf(thrown) }),
    ...beneath(thrown, depth, reach),
  };
}

const issuesOf = ({ issues }: PayloadInvalidError): PayloadIssue[] =>
  issues.slice(0, MAX_ISSUES).map(({ path, message }) => ({
    path: safeText(path, MAX_NAME),
    message: safeText(message, MAX_ISSUE_MESSAGE),
  }));

function beneath(
  error: object,
  depth: number,
  reach: Reach,
): Pick<ErrorReport, "cause" | "errors"> {
  const above = [...reach.above, error];
  const visit = (inner: unknown): ErrorReport | undefined => {
    if (depth + 1 >= MAX_DEPTH || reach.left <= 0 || above.includes(inner)) return undefined;
    const next: Reach = { ...reach, above };
    const made = report(inner, depth + 1, next);
    reach.left = next.left;
    return made;
  };
  const inner = read(error, "cause");
  const cause = inner === undefined || inner === null ? undefined : visit(inner);
  const list = read(error, "errors");
  const errors = firstOf(list).flatMap((each) => visit(each) ?? []);
  return { ...(cause && { cause }), ...(errors.length > 0 && { errors }) };
}

function nonError(thrown: unknown): ErrorReport {
  if (typeof thrown === "string") {
    return { name: "NonError", message: safeText(thrown, MAX_MESSAGE) };
  }
  const options = { depth: 2, customInspect: false, breakLength: Infinity, maxStringLength: 1_000 };
  return { name: "NonError", message: safeText(inspect(thrown, options), MAX_MESSAGE) };
}

function nameOf(error: object): string {
  const name = read(error, "name");
  if (typeof name === "string" && name !== "" && name !== "Error") return safeText(name, MAX_NAME);
  // `class MailboxGone extends Error {}` is called Error, which helps nobody
  const ctor = read(error, "constructor");
  const ctorName = typeof ctor === "function" ? read(ctor, "name") : undefined;
  const known = typeof ctorName === "string" && ctorName !== "" && ctorName !== "Object";
  return known ? safeText(ctorName, MAX_NAME) : "Error";
}

// the stack repeats the message: a long one would leave no room for the frames
function stackText(stack: string, message: string): string {
  const short =
    message.length > 1_000 ? stack.replace(message, () => safeText(message, 1_000)) : stack;
  return safeText(short, MAX_STACK);
}

function firstOf(list: unknown): unknown[] {
  try {
    return Array.isArray(list) ? list.slice(0, MAX_ERRORS) : [];
  } catch {
    return [];
  }
}

function read(from: object, key: string): unknown {
  try {
    return (from as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}
