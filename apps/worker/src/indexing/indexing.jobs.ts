import { Injectable } from "@nestjs/common";
import { JobHandler, type PayloadOf, skip } from "nestjs-pg-jobs";
import { IndexRecord, SavedRecord } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { SearchIndex } from "./search-index.js";

@Injectable()
export class IndexingJobs {
  constructor(
    private readonly dataSource: DataSource,
    private readonly index: SearchIndex,
  ) {}

  /** Without its backend there is nothing to bring up to date: it is filled anew when it comes back. */
  @JobHandler(IndexRecord)
  async bringUpToDate({ recordId }: PayloadOf<typeof IndexRecord>) {
    if (!(await this.index.ping())) return skip("the search index is away");
    const record = await this.dataSource.getRepository(SavedRecord).findOneBy({ id: recordId });
    if (!record) return skip("the record was deleted");
    await this.index.put(record);
    return { indexed: record.text.length };
  }
}
