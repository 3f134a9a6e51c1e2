import { BULK_ACTIONS, LISTED_STATES } from "nestjs-pg-jobs";
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
import { anyOf, integer, key, oneOf, required } from "../request/field.js";
import { WHY } from "../request/why.js";
import { WHICH_JOBS, WHICH_PROBLEMS } from "../jobs/jobs.operations.js";

const REQUEST = {
  action: required(oneOf("What to do to them.", BULK_ACTIONS)),
  state: anyOf(
    "In one of these states; absent: those that the action is meant for (requeue: dead; cancel: queued, running; delete: all but running).",
    LISTED_STATES,
  ),
  ...WHICH_JOBS,
};
const UNKNOWN = { 404: ["BULK_UNKNOWN"] };

export const previewBulk = operation({
  id: "previewBulk",
  method: "post",
  path: "bulk/preview",
  role: "operator",
  changes: false,
  summary: "How many jobs an operation on many would change, and the newest of them",
  body: REQUEST,
  answer: object({ count: whole, complete: flag, sample: list(ref("JobSummary")) }),
  problems: { 400: WHICH_PROBLEMS },
});

export const startBulk = operation({
  id: "startBulk",
  method: "post",
  path: "bulk",
  role: "operator",
  summary: "Requeue, cancel or delete many jobs",
  description:
    "Works them off in the background, from the newest to the oldest, no more than `expected`, of those that are there now.",
  body: {
    ...REQUEST,
    expected: required(integer("As many as the preview has counted.", 1, 100_000)),
    ...WHY,
  },
  answer: ref("BulkOperation"),
  problems: { 400: WHICH_PROBLEMS, 409: ["BULK_COUNT_DIFFERS"], 422: ["BULK_TOO_LARGE"] },
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
  role: "viewer",
  summary: "An operation on many jobs, and how far it has come",
  answer: ref("BulkOperation"),
  problems: UNKNOWN,
});

export const stopBulk = operation({
  id: "stopBulk",
  method: "delete",
  path: "bulk/:id",
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
