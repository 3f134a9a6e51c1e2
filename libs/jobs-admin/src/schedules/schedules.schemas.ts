import { JOB_STATES } from "nestjs-pg-jobs";
import {
  type Schema,
  about,
  integer,
  json,
  list,
  object,
  orNull,
  ref,
  text,
  time,
  word,
} from "../openapi/schema.js";

/** The schemas of schedules, by name. */
export const SCHEDULE_SCHEMAS: Readonly<Record<string, Schema>> = {
  Schedule: object(
    {
      name: text,
      kind: text,
      queue: text,
      priority: integer,
      cron: text,
      timeZone: text,
      overlap: word("skip", "queue"),
      misfire: word("skip", "one", "all"),
      payload: about("Of each of its jobs. Absent where `withheld` names it.", json),
      withheld: ref("Withheld"),
      nextAt: orNull(time),
      next: about("The next five times; none while nobody knows when it is resumed.", list(time)),
      lastAt: orNull(time),
      lastJob: orNull(text),
      lastRuns: about(
        "Its last five jobs, the newest first; `state` is null when one is not kept any more.",
        list(object({ id: text, state: orNull(word(...JOB_STATES)) })),
      ),
      paused: orNull(ref("Pause")),
      service: about("Whose code declares it; null: it was made by a call.", orNull(text)),
      orphanedAt: orNull(time),
      retiredAt: orNull(time),
      createdAt: time,
    },
    ["payload", "withheld"],
  ),
};
