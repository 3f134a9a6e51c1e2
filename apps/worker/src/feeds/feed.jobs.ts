import { Injectable } from "@nestjs/common";
import {
  type JobContext,
  JobHandler,
  JobTimeoutError,
  type PayloadOf,
  ScheduledJob,
} from "nestjs-pg-jobs";
import { config } from "../config.js";
import { ReadFeed, RefreshFeeds } from "./contracts.js";
import { FeedSource, SourceAwayError } from "./feed-source.js";
import { FeedStore, ItemsNotStoredError } from "./feed-store.js";

const { sources, cron, attempts, backoff, timeout } = config.feeds;

@Injectable()
export class FeedJobs {
  constructor(
    private readonly source: FeedSource,
    private readonly store: FeedStore,
  ) {}

  /**
   * A source has one job at a time, however long that runs or is retried: its key is the source. Ticks that nobody saw
   * are not made up for, because the next one finds what they would have found.
   */
  @ScheduledJob(RefreshFeeds, { cron, misfire: "skip" })
  async refresh(_payload: unknown, job: JobContext) {
    let enqueued = 0;
    for (const source of sources) {
      const { deduplicated } = await job.enqueue(ReadFeed, { source }, { key: source });
      if (!deduplicated) enqueued++;
    }
    return { enqueued };
  }

  /** What is not listed is not retried: a feed that is malformed now will be so in ten seconds. */
  @JobHandler(ReadFeed, {
    attempts,
    backoff,
    timeout,
    retryOn: [SourceAwayError, JobTimeoutError, ItemsNotStoredError],
  })
  async read({ source }: PayloadOf<typeof ReadFeed>, job: JobContext) {
    const items = await this.source.read(source, { signal: job.signal });
    const kept = await this.store.keep(source, items, job);
    job.logger.log("Feed read", kept);
  }
}
