import { LISTED_STATES, payloadText } from "nestjs-pg-jobs";
import { list, object, ref, text, word } from "../openapi/schema.js";
import { operation } from "../operation/operation.js";
import {
  anyOf,
  integer,
  jobId,
  json,
  key,
  name,
  only,
  part,
  payloadMatch,
  time,
} from "../request/field.js";
import { WHY } from "../request/why.js";
import { refusePlaceholder, refuseSearch } from "./refusals.js";

/** Which one. */
const ONE = { id: jobId("As enqueue answered it.") };

const UNKNOWN = { 400: ["JOB_ID_INVALID"], 404: ["JOB_UNKNOWN"] };

/** Which of them. */
export const WHICH_JOBS = {
  queue: name("Of this queue."),
  kind: name("Of this kind."),
  key: key("With this key: found at once among unfinished jobs."),
  priority: integer("With this priority.", -100, 100),
  createdSince: time("Created at that time or later."),
  createdBefore: time("Created before that time."),
  finishedSince: time("Finished, or died, at that time or later."),
  finishedBefore: time("Finished, or died, before that time."),
  error: part(
    "Whose error has this in its name or message: the last one of dead letters, the newest 20 that are kept of others.",
  ),
  payload: payloadMatch(
    "Whose payload has this at that place, as text: `customer.id:42`; for those who see payloads, and not where something is redacted.",
  ),
};

/** What a search in payloads may be told. */
export const WHICH_PROBLEMS = ["PAYLOAD_REDACTED"];
export const SEARCH_PROBLEMS = ["SEARCHES_BUSY"];

/** Which of them, and which page: of every list of jobs. */
export const PAGE_OF_JOBS = {
  ...WHICH_JOBS,
  limit: integer("At most so many; 50 unless said.", 1, 200),
  after: key("The `next` of the page before."),
};

export const listJobs = operation({
  id: "listJobs",
  method: "get",
  path: "jobs",
  role: "viewer",
  summary: "Jobs, newest first",
  description:
    "A page looks at no more than 20,000 jobs, however few of them fit; with `error` or `payload` at 5,000, for half a second at most. `searchedBackTo` tells how far it came, `next` goes on from there.",
  query: {
    state: anyOf(
      "In one of these states; `scheduled` (due later) and `retrying` (has failed before) are parts of `queued`.",
      LISTED_STATES,
    ),
    ...PAGE_OF_JOBS,
  },
  check({ query }, asking) {
    refuseSearch(query.payload, asking);
  },
  answer: ref("JobPage"),
  problems: { 400: ["CURSOR_INVALID", ...WHICH_PROBLEMS], 503: SEARCH_PROBLEMS },
});

export const getJob = operation({
  id: "getJob",
  method: "get",
  path: "jobs/:id",
  parameters: ONE,
  role: "viewer",
  summary: "A job with its errors, its history and the first lines of its log",
  answer: ref("JobDetails"),
  problems: UNKNOWN,
});

export const getHistory = operation({
  id: "getHistory",
  method: "get",
  path: "jobs/:id/history",
  parameters: ONE,
  role: "viewer",
  summary: "What happened to a job, in order",
  answer: list(ref("HistoryEvent")),
  problems: UNKNOWN,
});

export const getLogs = operation({
  id: "getLogs",
  method: "get",
  path: "jobs/:id/logs",
  parameters: ONE,
  role: "viewer",
  summary: "What the attempts of a job have logged, oldest lines first",
  query: {
    attempt: integer("Of this attempt only.", 1, 2_147_483_647),
    limit: integer("At most so many; 200 unless said.", 1, 1_000),
    after: key("The `next` of the page before."),
  },
  answer: ref("JobLogPage"),
  problems: { 400: ["JOB_ID_INVALID", "CURSOR_INVALID"], 404: ["JOB_UNKNOWN"] },
});

export const requeueJob = operation({
  id: "requeueJob",
  method: "post",
  path: "jobs/:id/requeue",
  parameters: ONE,
  role: "operator",
  summary: "Send a dead or cancelled job to its queue again",
  description: "With another payload only for an admin.",
  body: {
    ...WHY,
    payload: only(
      "admin",
      json(
        "Instead of its own; absent: its own. What was shown as [redacted] has to be said anew.",
      ),
    ),
  },
  check({ parameters, body }, { payloads, payloadLimit }) {
    if (body.payload === undefined) return;
    payloadText(parameters.id, body.payload, payloadLimit);
    refusePlaceholder(body.payload, payloads);
  },
  answer: object({ id: text, state: word("queued") }),
  problems: {
    400: ["JOB_ID_INVALID", "PAYLOAD_NOT_JSON", "PAYLOAD_REDACTED"],
    404: ["JOB_UNKNOWN"],
    409: ["JOB_NOT_REQUEUEABLE", "KEY_TAKEN", "JOB_LOCKED"],
  },
});

export const cancelJob = operation({
  id: "cancelJob",
  method: "post",
  path: "jobs/:id/cancel",
  parameters: ONE,
  role: "operator",
  summary: "Withdraw a job that waits, or ask one that runs to end",
  description:
    "`cancelled`: it will not start. `requested`: it runs, and its signal aborts; unless it succeeds or dies it ends as cancelled.",
  body: WHY,
  answer: object({ id: text, answer: word("cancelled", "requested") }),
  problems: {
    400: ["JOB_ID_INVALID"],
    404: ["JOB_UNKNOWN"],
    409: ["JOB_NOT_CANCELLABLE", "JOB_LOCKED"],
  },
});

export const deleteJob = operation({
  id: "deleteJob",
  method: "delete",
  path: "jobs/:id",
  parameters: ONE,
  role: "operator",
  summary: "Take a job away for good, unless it runs",
  query: WHY,
  answer: object({ id: text, answer: word("deleted") }),
  problems: {
    400: ["JOB_ID_INVALID"],
    404: ["JOB_UNKNOWN"],
    409: ["JOB_RUNS", "JOB_LOCKED"],
  },
});

export const JOB_OPERATIONS = [
  listJobs,
  getJob,
  getHistory,
  getLogs,
  requeueJob,
  cancelJob,
  deleteJob,
];
