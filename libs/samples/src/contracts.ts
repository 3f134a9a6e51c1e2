import { defineEvent, defineJob, exponential, steps } from "nestjs-pg-jobs";
import { z } from "zod";

// What the API enqueues and the worker runs: both import it, neither knows the other.

/** Sends a reminder by mail; retried after 30 s, 2 m and 8 m, then it is a dead letter. */
export const SendReminder = defineJob("reminder.send", {
  payload: z.object({ reminderId: z.uuid() }),
  queue: "mail",
  attempts: 4,
  backoff: exponential({ first: "30s", factor: 4, max: "8m", jitter: 0 }),
  timeout: "30s",
});

/** Makes a thumbnail; its attempts and their delay are the worker's to say. */
export const MakeThumbnail = defineJob("thumbnail.make", {
  payload: z.object({ imageUrl: z.url() }),
  queue: "media",
  timeout: "1m",
});

/** Hands an event to its subscriber; tried again after 1 m, 5 m, 30 m, 2 h and 12 h, then it is a dead letter. */
export const DeliverEvent = defineJob("event.deliver", {
  payload: z.object({ name: z.string(), data: z.json() }),
  queue: "events",
  attempts: 6,
  backoff: steps("1m", "5m", "30m", "2h", "12h"),
  timeout: "5m",
});

/** A record has changed; who wants to know how reads it. Its routing key is a sort that the record has, or had before. */
export const RecordChanged = defineEvent("record.changed", {
  payload: z.object({ recordId: z.uuid() }),
});

/** Sorts of records. */
export const RECORD_SORTS = ["note", "log"] as const;
/** One of {@link RECORD_SORTS}. */
export type RecordSort = (typeof RECORD_SORTS)[number];
