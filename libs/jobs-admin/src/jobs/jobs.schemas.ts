import { JOB_STATES } from "nestjs-pg-jobs";
import {
  type Schema,
  about,
  integer,
  json,
  list,
  number,
  object,
  orNull,
  ref,
  text,
  time,
  word,
} from "../openapi/schema.js";

const summary = {
  id: text,
  kind: text,
  queue: text,
  state: word(...JOB_STATES),
  priority: integer,
  attempt: about("How many times it was started.", integer),
  failures: integer,
  attempts: about(
    "Null: neither call nor definition said; the default of the worker holds.",
    orNull(integer),
  ),
  runAt: time,
  createdAt: time,
  startedAt: orNull(time),
  finishedAt: orNull(time),
  key: orNull(text),
  worker: orNull(text),
  lastError: orNull(text),
};

/** The schemas of jobs, by name. */
export const JOB_SCHEMAS: Readonly<Record<string, Schema>> = {
  JobSummary: object(summary),
  JobPage: object({
    items: list(ref("JobSummary")),
    next: about("`after` of the next page; null when there is nothing older.", orNull(text)),
    searchedBackTo: about(
      "A page looks at no more than 20,000 jobs, or 5,000, or for half a second: when that ended it, how far back it looked.",
      orNull(time),
    ),
  }),
  JobDetails: object(
    {
      ...summary,
      payload: about("Absent where `withheld` names it.", json),
      result: about("Absent where `withheld` names it.", json),
      withheld: ref("Withheld"),
      resultProblem: about("Why its result could not be stored.", orNull(text)),
      progress: orNull(ref("JobProgress")),
      errors: about("Each failed attempt, oldest first.", list(ref("AttemptError"))),
      history: about(
        "Null: the schema of the database is too old for it.",
        orNull(list(ref("HistoryEvent"))),
      ),
      logs: about(
        "The first lines; `GET jobs/{id}/logs` has the others. Null: the schema of the database is too old for it.",
        orNull(ref("JobLogPage")),
      ),
    },
    ["payload", "result", "withheld"],
  ),
  JobProgress: object({ percent: number, note: orNull(text), attempt: integer, at: time }),
  JobLogLine: object({ attempt: integer, line: integer, at: time, text }),
  JobLogPage: object({
    items: list(ref("JobLogLine")),
    next: about("`after` of the next page; null when there is nothing newer yet.", orNull(text)),
  }),
  AttemptError: object({
    attempt: integer,
    startedAt: orNull(time),
    failedAt: time,
    error: ref("ErrorReport"),
  }),
  ErrorReport: object(
    {
      name: text,
      message: text,
      stack: text,
      code: text,
      cause: ref("ErrorReport"),
      issues: about(
        "What a schema said of the payload: for who may see payloads.",
        list(object({ path: text, message: text })),
      ),
      errors: list(ref("ErrorReport")),
    },
    ["stack", "code", "cause", "issues", "errors"],
  ),
  HistoryEvent: object({
    event: text,
    at: time,
    attempt: integer,
    generation: integer,
    worker: orNull(text),
    reason: orNull(text),
    delayMs: orNull(number),
    error: orNull(ref("ErrorReport")),
  }),
  Withheld: about(
    "What this answer leaves out, because the operator's role is too weak for it.",
    object({ members: list(text), role: text }),
  ),
};
