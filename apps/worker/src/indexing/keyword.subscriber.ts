import { Injectable } from "@nestjs/common";
import { type EventPayload, OnEvent, skip } from "nestjs-pg-jobs";
import { RecordChanged, SavedRecord } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { KeywordIndex } from "./keyword-index.js";

@Injectable()
export class KeywordSubscriber {
  constructor(
    private readonly dataSource: DataSource,
    private readonly index: KeywordIndex,
  ) {}

  /** Of all sorts. Without its backend there is nothing to bring up to date: it is filled anew when it comes back. */
  @OnEvent(RecordChanged, {
    name: "index.keyword",
    routingKey: ["note", "log"],
    queue: "indexing",
    concurrency: 5,
  })
  async bringUpToDate({ recordId }: EventPayload<typeof RecordChanged>) {
    if (!(await this.index.ping())) return skip("the keyword index is away");
    const record = await this.dataSource.getRepository(SavedRecord).findOneBy({ id: recordId });
    if (!record) return skip("the record was deleted");
    await this.index.put(record);
    return { indexed: record.text.length };
  }
}
