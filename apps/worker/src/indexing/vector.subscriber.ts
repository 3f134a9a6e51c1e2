import { Injectable } from "@nestjs/common";
import { type EventPayload, OnEvent, exponential, skip } from "nestjs-pg-jobs";
import { RecordChanged, SavedRecord } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { VectorIndex } from "./vector-index.js";

@Injectable()
export class VectorSubscriber {
  constructor(
    private readonly dataSource: DataSource,
    private readonly index: VectorIndex,
  ) {}

  /** Notes only: nobody looks for logs that are like others. The model is somebody's service, and is asked again. */
  @OnEvent(RecordChanged, {
    name: "index.vector",
    routingKey: "note",
    queue: "indexing",
    attempts: 3,
    backoff: exponential({ first: "1s", factor: 2, jitter: 0 }),
  })
  async bringUpToDate({ recordId }: EventPayload<typeof RecordChanged>) {
    const record = await this.dataSource.getRepository(SavedRecord).findOneBy({ id: recordId });
    if (!record) return skip("the record was deleted");
    await this.index.put(record);
    return { embedded: record.text.length };
  }
}
