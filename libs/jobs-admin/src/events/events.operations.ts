import { type Schema, object, ref, time } from "../openapi/schema.js";
import { operation } from "../operation/operation.js";

export const EVENT_SCHEMAS: Readonly<Record<string, Schema>> = {
  MissedEvent: object({ since: time }),
};

export const followEvents = operation({
  id: "followEvents",
  method: "get",
  path: "events",
  role: "viewer",
  summary: "What changes, as server-sent events",
  description:
    "`stats`: what GET stats answers, at first and whenever it is another one; `dead`: a job has died, as a JobSummary; " +
    "`missed`: more have died since then than are told one by one, GET dead-letters has them; `problem`: why nothing can be told now. " +
    "Whoever was cut off sends the last id as Last-Event-ID, as an EventSource does, and is told first who has died meanwhile: " +
    "those of the last seconds before it perhaps once more. It ends after a quarter of an hour, for the credential is looked at when it begins.",
  stream: true,
  answer: { anyOf: [ref("Stats"), ref("JobSummary"), ref("MissedEvent"), ref("Problem")] },
  problems: { 400: ["LAST_EVENT_ID_INVALID"], 503: ["TOO_MANY_VIEWERS"] },
});

export const EVENT_OPERATIONS = [followEvents];
