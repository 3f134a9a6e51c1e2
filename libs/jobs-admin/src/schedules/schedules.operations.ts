import { parsePause } from "nestjs-pg-jobs";
import { flag, list, object, ref, text } from "../openapi/schema.js";
import { operation } from "../operation/operation.js";
import { name, time } from "../request/field.js";
import { WHY, WHY_AND_BY } from "../request/why.js";

const ONE = { name: name("Of this one.") };
const UNKNOWN = { 404: ["SCHEDULE_UNKNOWN"] };

export const listSchedules = operation({
  id: "listSchedules",
  method: "get",
  path: "schedules",
  role: "viewer",
  summary: "All schedules by name, with their next five times",
  answer: object({ items: list(ref("Schedule")) }),
});

export const runSchedule = operation({
  id: "runSchedule",
  method: "post",
  path: "schedules/:name/run",
  parameters: ONE,
  role: "operator",
  summary: "Enqueue a job of a schedule at once, also while it is paused",
  description:
    "Where `overlap` is `skip` and its newest job is not over, it is that one, with `deduplicated`. Its ticks stay as they are.",
  body: WHY,
  answer: object({ id: text, deduplicated: flag }),
  problems: { ...UNKNOWN, 503: ["ENQUEUE_OUTCOME_UNKNOWN"] },
});

export const pauseSchedule = operation({
  id: "pauseSchedule",
  method: "post",
  path: "schedules/:name/pause",
  parameters: ONE,
  role: "operator",
  summary: "A schedule has no ticks until it is resumed, or `until`; they are not made up for",
  body: {
    ...WHY_AND_BY,
    until: time("It goes on by itself then; absent: when it is resumed."),
  },
  check({ body }, { operator }) {
    parsePause({ ...body, by: operator.name });
  },
  answer: ref("Schedule"),
  problems: UNKNOWN,
});

export const resumeSchedule = operation({
  id: "resumeSchedule",
  method: "delete",
  path: "schedules/:name/pause",
  parameters: ONE,
  role: "operator",
  summary: "It goes on with the next tick from now",
  query: WHY,
  answer: ref("Schedule"),
  problems: UNKNOWN,
});

export const SCHEDULE_OPERATIONS = [listSchedules, runSchedule, pauseSchedule, resumeSchedule];
