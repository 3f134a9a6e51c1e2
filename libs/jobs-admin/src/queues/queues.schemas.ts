import {
  type Schema,
  about,
  integer,
  list,
  object,
  orNull,
  ref,
  text,
  time,
} from "../openapi/schema.js";
import { COUNTS, HEALTH } from "../stats/stats.operations.js";

const paused = { at: time, until: orNull(time), by: orNull(text), why: orNull(text) };

const queue = {
  name: text,
  createdAt: time,
  kinds: list(text),
  counts: about("Jobs by state; finished ones as far back as they are kept.", object(COUNTS)),
  health: object(HEALTH),
  paused: orNull(ref("Pause")),
  pausedKinds: list(ref("PausedKind")),
};

/** The schemas of queues, by name. */
export const QUEUE_SCHEMAS: Readonly<Record<string, Schema>> = {
  Pause: object(paused),
  PausedKind: object({ kind: text, paused: ref("Pause") }),
  Queue: object(queue),
  QueueDetails: object({ ...queue, limits: list(ref("Limit")) }),
  QueuePauses: object({
    name: text,
    paused: orNull(ref("Pause")),
    kinds: list(ref("PausedKind")),
  }),
  Limit: object({
    kind: about("Null: all kinds of the queue.", orNull(text)),
    key: about(
      "Null: all jobs together; else for each value that payloads have there.",
      orNull(text),
    ),
    limit: about("So many at once; null: any number.", orNull(integer)),
    rate: about(
      "So many starts in any window; null: any number.",
      orNull(object({ max: integer, perMs: integer })),
    ),
    running: integer,
    waiting: integer,
    at: time,
    by: orNull(text),
    why: orNull(text),
    paused: about("Keys that are paused.", list(object({ key: text, ...paused }))),
  }),
};
