import {
  BULK_ACTIONS,
  type BulkAction,
  type BulkOrderOptions,
  type BulkRequest,
  LISTED_STATES,
  parseBulkOrder,
  parseBulkRequest,
} from "nestjs-pg-jobs";
import {
  type Schema,
  about,
  flag,
  integer as whole,
  list,
  mapOf,
  object,
  orNull,
  ref,
  text,
  time,
  word,
} from "../openapi/schema.js";
import { operation } from "../operation/operation.js";
import { type ValuesOf, anyOf, integer, key, number, oneOf, required } from "../request/field.js";
import { WHY } from "../request/why.js";
import { SEARCH_PROBLEMS, WHICH_JOBS, WHICH_PROBLEMS } from "../jobs/jobs.operations.js";
import { refuseSearch } from "../jobs/refusals.js";

const REQUEST = {
  action: required(oneOf("What to do to them.", BULK_ACTIONS)),
  state: anyOf(
    "In one of these states; absent: those that the action is meant for (requeue: dead; cancel: queued, running; delete: all but running).",
    LISTED_STATES,
  ),
  ...WHICH_JOBS,
};
const ORDER = {
  ...REQUEST,
  expected: required(integer("As many as the preview has counted.", 1, 100_000)),
  ...WHY,
};
const ONE = { id: number("As `POST bulk` answered it.") };
const UNKNOWN = { 404: ["BULK_UNKNOWN"] };

/** What a body asks to look at. */
export function requestOf(body: ValuesOf<typeof REQUEST>): BulkRequest {
  const { action, ...filter } = body;
  return { action: action as BulkAction, filter: said(filter) };
}

/** What a body orders, in somebody's name. */
export function orderOf(body: ValuesOf<typeof ORDER>, operator: string): BulkOrderOptions {
  const { expected, why, ...request } = body;
  return {
    ...requestOf(request),
    expected: expected!,
    operator,
    ...(why === undefined ? {} : { why }),
  };
}

/** Without what was not said. */
export const said = <T extends object>(values: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };

export const previewBulk = operation({
  id: "previewBulk",
  method: "post",
  path: "bulk/preview",
  role: "operator",
  changes: false,
  summary: "How many jobs an operation on many would change, and the newest of them",
  body: REQUEST,
  check({ body }, asking) {
    refuseSearch(body.payload, asking);
    parseBulkRequest(requestOf(body));
  },
  answer: object({
    count: whole,
    complete: about(
      "False: there are more than one operation may change, or more to look through than can be in some seconds; narrow the filter.",
      flag,
    ),
    sample: list(ref("JobSummary")),
  }),
  problems: { 400: WHICH_PROBLEMS, 503: SEARCH_PROBLEMS },
});

export const startBulk = operation({
  id: "startBulk",
  method: "post",
  path: "bulk",
  role: "operator",
  summary: "Requeue, cancel or delete many jobs",
  description:
    "Works them off in the background, from the newest to the oldest, no more than `expected`, of those that are there now.",
  body: ORDER,
  check({ body }, asking) {
    refuseSearch(body.payload, asking);
    parseBulkOrder(orderOf(body, asking.operator.name));
  },
  answer: ref("BulkOperation"),
  problems: {
    400: WHICH_PROBLEMS,
    409: ["BULK_COUNT_DIFFERS"],
    422: ["BULK_TOO_LARGE"],
    503: SEARCH_PROBLEMS,
  },
});

export const listBulk = operation({
  id: "listBulk",
  method: "get",
  path: "bulk",
  role: "viewer",
  summary: "Operations on many jobs, the newest first",
  query: {
    limit: integer("At most so many; 50 unless said.", 1, 200),
    after: key("The `next` of the page before."),
  },
  answer: object({ items: list(ref("BulkOperation")), next: orNull(text) }),
});

export const getBulk = operation({
  id: "getBulk",
  method: "get",
  path: "bulk/:id",
  parameters: ONE,
  role: "viewer",
  summary: "An operation on many jobs, and how far it has come",
  answer: ref("BulkOperation"),
  problems: UNKNOWN,
});

export const stopBulk = operation({
  id: "stopBulk",
  method: "delete",
  path: "bulk/:id",
  parameters: ONE,
  role: "operator",
  summary: "Change no more jobs; what was changed stays so",
  query: WHY,
  answer: ref("BulkOperation"),
  problems: UNKNOWN,
});

export const BULK_OPERATIONS = [previewBulk, startBulk, listBulk, getBulk, stopBulk];

const SAID = {
  queue: text,
  kind: text,
  key: text,
  priority: whole,
  createdSince: time,
  createdBefore: time,
  finishedSince: time,
  finishedBefore: time,
  error: text,
  payload: about(
    "What stands at this place of the payload, as text; [redacted] where it is not shown.",
    object({ path: list(text), value: text }),
  ),
};

/** The schemas of operations on many jobs, by name. */
export const BULK_SCHEMAS: Readonly<Record<string, Schema>> = {
  BulkFilter: object(
    { states: list(word(...LISTED_STATES)), ...SAID },
    // What was not said is absent.
    Object.keys(SAID),
  ),
  BulkOperation: object({
    id: text,
    action: word(...BULK_ACTIONS),
    filter: about("Which jobs, as it was read.", ref("BulkFilter")),
    expected: about("No more than so many are changed.", whole),
    operator: text,
    why: orNull(text),
    createdAt: time,
    state: word("running", "done", "stopped", "failed"),
    changed: whole,
    refused: about("How many could not be changed, by the answer that each gave.", mapOf(whole)),
    problem: orNull(text),
    finishedAt: orNull(time),
  }),
};
