import { defineJob } from "nestjs-pg-jobs";
import { z } from "zod";

// Nobody but this feature enqueues them: so they are not among the contracts of the other samples.

/** Has each source read; enqueued by its schedule. */
export const RefreshFeeds = defineJob("feed.refresh", { queue: "feeds" });

/** Reads one source and stores what is new; its limits are the environment's to say. */
export const ReadFeed = defineJob("feed.read", {
  payload: z.object({ source: z.url() }),
  queue: "feeds",
});
