import { Module } from "@nestjs/common";
import { FeedJobs } from "./feed.jobs.js";
import { FeedSource } from "./feed-source.js";
import { FeedStore } from "./feed-store.js";

@Module({ providers: [FeedJobs, FeedSource, FeedStore] })
export class FeedsModule {}
