import { Module } from "@nestjs/common";
import { IndexingJobs } from "./indexing.jobs.js";
import { SearchIndex } from "./search-index.js";

@Module({ providers: [IndexingJobs, SearchIndex] })
export class IndexingModule {}
