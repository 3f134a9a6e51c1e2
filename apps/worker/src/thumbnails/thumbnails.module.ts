import { Module } from "@nestjs/common";
import { ThumbnailJobs } from "./thumbnail.jobs.js";

@Module({ providers: [ThumbnailJobs] })
export class ThumbnailsModule {}
