import { about, integer, list, object, orNull, ref, text } from "../openapi/schema.js";
import { PAGE_OF_JOBS, SEARCH_PROBLEMS, WHICH_PROBLEMS } from "../jobs/jobs.operations.js";
import { refuseSearch } from "../jobs/refusals.js";
import { operation } from "../operation/operation.js";

export const listDeadLetters = operation({
  id: "listDeadLetters",
  method: "get",
  path: "dead-letters",
  role: "viewer",
  summary: "Jobs that need a person, newest first, and what has died within the last hour",
  query: PAGE_OF_JOBS,
  check({ query }, asking) {
    refuseSearch(query.payload, asking);
  },
  answer: object({
    items: list(ref("JobSummary")),
    next: orNull(text),
    searchedBackTo: orNull({ type: "string", format: "date-time" }),
    lastHour: about(
      "What has died within the last hour and is dead still, the most first; of each queue the newest 10,001 are looked at. Null on all pages but the first.",
      orNull(list(object({ queue: text, kind: text, dead: integer }))),
    ),
  }),
  problems: { 400: ["CURSOR_INVALID", ...WHICH_PROBLEMS], 503: SEARCH_PROBLEMS },
});

export const DEAD_LETTER_OPERATIONS = [listDeadLetters];
