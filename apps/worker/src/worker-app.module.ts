import { Module } from "@nestjs/common";
import { Events, JobsModule } from "nestjs-pg-jobs";
import { JobsMetricsModule } from "nestjs-pg-jobs/prometheus";
import { SamplesModule, tellLauncher } from "nestjs-pg-jobs-samples";
import { config } from "./config.js";
import { EventsModule } from "./events/events.module.js";
import { FeedsModule } from "./feeds/feeds.module.js";
import { IndexingModule } from "./indexing/indexing.module.js";
import { RemindersModule } from "./reminders/reminders.module.js";
import { ThumbnailsModule } from "./thumbnails/thumbnails.module.js";

/** Without a source there is nothing to be done at any tick: then there is no schedule. */
const feeds = config.feeds.sources.length > 0 ? [FeedsModule] : [];

/** A worker: the features with handlers are imported by `forWorker`, so that it drains before they go. */
@Module({
  imports: [
    SamplesModule.forRoot({ url: config.databaseUrl }),
    JobsModule.forRoot({ connection: { url: config.databaseUrl }, schema: config.schema }),
    JobsMetricsModule.forRoot(),
    JobsModule.forWorker({
      imports: [EventsModule, ...feeds, IndexingModule, RemindersModule, ThumbnailsModule],
      lease: config.lease,
      queues: {
        events: {},
        feeds: { concurrency: 4 },
        indexing: {},
        mail: { concurrency: 20 },
        media: { concurrency: 4, archiveDead: "30d" },
      },
    }),
  ],
})
export class WorkerAppModule {
  constructor(events: Events) {
    const stop = events.on(["succeeded"], ({ id }) => {
      stop(); // the launcher wants to know of the first
      tellLauncher({ type: "succeeded", id });
    });
  }
}
