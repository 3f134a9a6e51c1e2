import { type Schema, about, list, object, orNull, ref, text, time } from "../openapi/schema.js";
import { operation } from "../operation/operation.js";
import { integer, key, words } from "../request/field.js";

export const listAudit = operation({
  id: "listAudit",
  method: "get",
  path: "audit",
  role: "admin",
  summary: "Who did what, when and why, the newest first",
  description: "A page looks at no more than 20,000 deeds, however few of them fit.",
  query: {
    operator: words("Of this operator."),
    action: words("Of this operation, by its id: requeueJob, pauseQueue …"),
    target: words("To this job, queue or schedule."),
    limit: integer("At most so many; 50 unless said.", 1, 200),
    after: key("The `next` of the page before."),
  },
  answer: object({ items: list(ref("Deed")), next: orNull(text) }),
});

export const AUDIT_OPERATIONS = [listAudit];

/** The schemas of what operators did, by name. */
export const AUDIT_SCHEMAS: Readonly<Record<string, Schema>> = {
  Deed: object({
    id: text,
    at: time,
    operator: text,
    role: text,
    action: about("The id of the operation.", text),
    target: text,
    why: orNull(text),
    details: about(
      "Of more than 8,192 characters of JSON their beginning, as `cut`, and how many `characters` there were.",
      { type: "object" },
    ),
    outcome: about(
      "done, or the code of the problem (OUTCOME_UNKNOWN, ENQUEUE_OUTCOME_UNKNOWN, INTERNAL: it may have been done); null: it was begun, and nobody heard how it ended.",
      orNull(text),
    ),
    endedAt: orNull(time),
  }),
};
