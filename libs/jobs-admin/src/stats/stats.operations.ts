import {
  type Schema,
  about,
  integer,
  list,
  number,
  object,
  orNull,
  ref,
  text,
  time,
} from "../openapi/schema.js";
import { operation } from "../operation/operation.js";

/** Jobs by state, of whatever. */
export const COUNTS = {
  unfinished: integer,
  succeeded: integer,
  skipped: integer,
  cancelled: integer,
  dead: integer,
  archived: integer,
  pruned: integer,
  deleted: integer,
};

/** How a queue is doing. */
export const HEALTH = {
  backlog: integer,
  lagMs: number,
  oldestJob: orNull(text),
  deadLetters: integer,
  expiredLeases: integer,
};

export const STATS_SCHEMAS: Readonly<Record<string, Schema>> = {
  Stats: object({
    readAt: about("When it was read; it is read once a second for all who look.", time),
    counts: list(object({ queue: text, kind: text, ...COUNTS })),
    queues: list(object({ queue: text, ...HEALTH })),
    unknownKinds: list(object({ queue: text, kind: text })),
  }),
};

export const getStats = operation({
  id: "getStats",
  method: "get",
  path: "stats",
  role: "viewer",
  summary: "How much there is of everything, by queue, kind and state, and how queues are doing",
  answer: ref("Stats"),
});

export const STATS_OPERATIONS = [getStats];
