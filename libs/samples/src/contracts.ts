import { defineJob, exponential } from "nestjs-pg-jobs";
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
