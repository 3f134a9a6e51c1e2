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

const RATES = {
  enqueuedPerSecond: orNull(number),
  endedPerSecond: about("However they ended.", orNull(number)),
};

export const STATS_SCHEMAS: Readonly<Record<string, Schema>> = {
  Stats: object({
    readAt: about("When it was read; it is read once a second for all who look.", time),
    counts: list(object({ queue: text, kind: text, ...COUNTS })),
    ratesSince: about(
      "Since when jobs a second are counted, at most a minute while somebody looks; null at the first look after some minutes.",
      orNull(time),
    ),
    queues: list(object({ queue: text, ...HEALTH, ...RATES })),
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
