import { type Schema, about, integer as whole, object } from "../openapi/schema.js";
import { operation } from "../operation/operation.js";
import { ref } from "../openapi/schema.js";
import { integer, name, required } from "../request/field.js";
import { WHY } from "../request/why.js";

export const processQueue = operation({
  id: "processQueue",
  method: "post",
  path: "process",
  role: "operator",
  summary: "Have what is due worked off now, and hear what became of it",
  description:
    "Workers start the jobs as they always do: what is paused stays so, limits hold. What is running or waiting when the time is over goes on.",
  body: {
    queue: required(name("Jobs of this queue.")),
    kind: name("Of this kind."),
    limit: integer("At most so many, those that come first; 100 unless said.", 1, 1_000),
    seconds: integer("How long to wait for them; 30 unless said.", 1, 60),
    ...WHY,
  },
  answer: ref("ProcessReport"),
  problems: { 404: ["QUEUE_UNKNOWN", "KIND_UNKNOWN"], 409: ["NO_WORKER"] },
});

export const PROCESS_OPERATIONS = [processQueue];

/** The schemas of what became of due jobs, by name. */
export const PROCESS_SCHEMAS: Readonly<Record<string, Schema>> = {
  ProcessReport: object({
    jobs: about("How many were due and came first.", whole),
    succeeded: whole,
    skipped: whole,
    cancelled: whole,
    dead: whole,
    retried: about("They ran and went back: failed, snoozed or handed back.", whole),
    gone: about("They are over and have left nothing, or were deleted.", whole),
    running: whole,
    waiting: whole,
  }),
};
