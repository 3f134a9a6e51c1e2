import { Injectable } from "@nestjs/common";
import { type EventPayload, OnEvent, exponential, skip } from "nestjs-pg-jobs";
import { RecordChanged, type RecordSort, SavedRecord } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { VectorIndex } from "./vector-index.js";

const SORT: RecordSort = "note";

@Injectable()
export class VectorSubscriber {
  constructor(
    private readonly dataSource: DataSource,
    private readonly index: VectorIndex,
  ) {}

  /**
   * Notes only: nobody looks for logs that are like others. The model is somebody's service, and is asked again; when it
   * hangs, it leaves half of the queue to others.
   */
  @OnEvent(RecordChanged, {
    name: "index.vector",
    routingKey: SORT,
    queue: "indexing",
    concurrency: 5,
    attempts: 3,
    backoff: exponential({ first: "1s", factor: 2, jitter: 0 }),
  })
  async bringUpToDate({ recordId }: EventPayload<typeof RecordChanged>) {
    const record = await this.dataSource.getRepository(SavedRecord).findOneBy({ id: recordId });
    if (!record) return skip("the record was deleted");
    if (record.sort !== SORT) {
      await this.index.remove(record);
      return { removed: true };
    }
    await this.index.put(record);
    return { embedded: record.text.length };
  }
}
