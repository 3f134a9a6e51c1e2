import { Injectable } from "@nestjs/common";
import { JobHandler, type PayloadOf, skip } from "nestjs-pg-jobs";
import { IndexRecord } from "nestjs-pg-jobs-samples";
import { SearchIndex } from "./search-index.js";

@Injectable()
export class IndexingJobs {
  constructor(private readonly index: SearchIndex) {}

  /** Without its backend there is nothing to bring up to date: it is filled anew when it comes back. */
  @JobHandler(IndexRecord)
  async bringUpToDate({ recordId, text }: PayloadOf<typeof IndexRecord>) {
    if (!(await this.index.ping())) return skip("the search index is away");
    await this.index.put(recordId, text);
    return { indexed: text.length };
  }
}
