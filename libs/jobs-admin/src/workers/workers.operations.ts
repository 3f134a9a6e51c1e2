import {
  type Schema,
  about,
  flag,
  integer,
  list,
  mapOf,
  number,
  object,
  orNull,
  ref,
  text,
  time,
} from "../openapi/schema.js";
import { operation } from "../operation/operation.js";

export const WORKER_SCHEMAS: Readonly<Record<string, Schema>> = {
  Worker: object({
    worker: about("host:pid, as jobs name it.", text),
    host: text,
    pid: integer,
    alive: flag,
    startedAt: time,
    stoppedAt: orNull(time),
    beatAt: time,
    beatAgeMs: number,
    kinds: about("By queue, what it has handlers for.", mapOf(list(text))),
    slots: integer,
    running: integer,
    lost: integer,
    release: about("Of nestjs-pg-jobs, that it runs; null: it has not said.", orNull(text)),
    loopDelayMs: about(
      "How late its timers were between its last two beats, of the slowest hundredth; null: it has not said.",
      orNull(number),
    ),
    current: about(
      "Of those that ran at its last beat: the 20 that had run the longest.",
      list(object({ id: text, kind: text, startedAt: time })),
    ),
  }),
};

export const listWorkers = operation({
  id: "listWorkers",
  method: "get",
  path: "workers",
  role: "viewer",
  summary: "The workers of the last day: who lives, what they serve, how much they run",
  answer: object({ items: list(ref("Worker")) }),
});

export const WORKER_OPERATIONS = [listWorkers];
