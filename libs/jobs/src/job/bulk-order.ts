import { type JobFilter, type ListedState, type ParsedJobFilter, parseList } from "./job-filter.js";
import { OptionsCheck } from "./options-check.js";

/** What can be done to many jobs. */
export const BULK_ACTIONS = ["requeue", "cancel", "delete"] as const;

/** One of them. */
export type BulkAction = (typeof BULK_ACTIONS)[number];

/** What to do to which jobs. */
export interface BulkRequest {
  /** `requeue` takes what is dead, or cancelled where the filter says so; `cancel` what is queued or runs; `delete` all but what runs. */
  action: BulkAction;
  /** Which jobs; without a state, those that the action is meant for. */
  filter?: JobFilter;
}

/** The same, ordered by somebody. */
export interface BulkOrderOptions extends BulkRequest {
  /** As many as the preview has counted; 1..100,000. */
  expected: number;
  /** Who orders it. */
  operator: string;
  /** Why, for those who look. */
  why?: string;
}

/** No more jobs than these are changed by one operation. */
export const MOST_JOBS = 100_000;

/** Which states an action means when the filter says nothing, and which it can change also. */
const STATES: Record<BulkAction, { means: readonly ListedState[]; also: readonly ListedState[] }> =
  {
    requeue: { means: ["dead"], also: ["cancelled"] },
    cancel: { means: ["queued", "running"], also: ["scheduled", "retrying"] },
    delete: {
      means: ["queued", "succeeded", "skipped", "cancelled", "dead"],
      also: ["scheduled", "retrying"],
    },
  };

const REQUEST = ["action", "filter"];
const WORDS = 1_000;

/** Checks what to do to which jobs. @throws OptionsError */
export function parseBulkRequest(request: unknown): {
  action: BulkAction;
  filter: ParsedJobFilter;
} {
  const check = new OptionsCheck("bulk operation");
  const read = readRequest(check, check.object("", request, REQUEST) ? request : {});
  check.done();
  return read;
}

/** Checks an order. @throws OptionsError */
export function parseBulkOrder(order: unknown): {
  action: BulkAction;
  filter: ParsedJobFilter;
  expected: number;
  operator: string;
  why: string | null;
} {
  const check = new OptionsCheck("bulk operation");
  const known = [...REQUEST, "expected", "operator", "why"];
  const given: Record<string, unknown> = check.object("", order, known) ? order : {};
  const read = readRequest(check, given);
  const expected = check.integer("expected", given.expected ?? null, 1, MOST_JOBS) ?? 0;
  const operator = words(check, "operator", given.operator ?? null) ?? "";
  if (operator === "" && given.operator === "") check.expected("operator", "who orders it", "");
  const why = given.why === undefined ? null : (words(check, "why", given.why) ?? null);
  check.done();
  return { ...read, expected, operator, why };
}

function readRequest(
  check: OptionsCheck,
  given: Record<string, unknown>,
): { action: BulkAction; filter: ParsedJobFilter } {
  const action = check.word("action", given.action ?? null, BULK_ACTIONS) ?? "cancel";
  const { means, also } = STATES[action];
  const { filter } = parseList(given.filter);
  if ((given.filter as JobFilter | undefined)?.state === undefined)
    return { action, filter: { ...filter, states: means } };
  const can = [...means, ...also];
  const cannot = filter.states.filter((state) => !can.includes(state));
  if (cannot.length > 0)
    check.expected("filter.state", `for ${action} some of ${can.join(", ")}`, cannot.join(", "));
  return { action, filter };
}

function words(check: OptionsCheck, at: string, value: unknown): string | undefined {
  if (typeof value === "string" && value.length <= WORDS && /^[^\0\p{Cs}]*$/u.test(value))
    return value;
  return check.expected(at, `a text of at most ${WORDS} characters without NUL`, value);
}

const TIMES = ["createdSince", "createdBefore", "finishedSince", "finishedBefore"] as const;

const NOTHING: Readonly<Record<keyof ParsedJobFilter, null>> = {
  states: null,
  queue: null,
  kind: null,
  key: null,
  priority: null,
  createdSince: null,
  createdBefore: null,
  finishedSince: null,
  finishedBefore: null,
  error: null,
  payload: null,
};

/** A parsed filter as JSON has brought it back. @throws Error for one of a release that knows more: it means fewer jobs */
export function filterFromJson(json: object): ParsedJobFilter {
  const unknown = Object.keys(json).filter((name) => !Object.hasOwn(NOTHING, name));
  if (unknown.length > 0)
    throw new Error(
      `filter: ${unknown.join(", ")} is not known to the release that was to work it off; order it again when all have the newer one`,
    );
  const read: Record<string, unknown> = { ...NOTHING, ...json };
  for (const name of TIMES)
    read[name] = typeof read[name] === "string" ? new Date(read[name]) : null;
  return read as unknown as ParsedJobFilter;
}

/** What of it was said, for those who look. */
export function filterToJson({ states, ...filter }: ParsedJobFilter): object {
  const said = Object.entries(filter).filter(([, value]) => value !== null);
  return { states, ...Object.fromEntries(said) };
}
