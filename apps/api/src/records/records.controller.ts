import { Body, Controller, HttpCode, Param, ParseUUIDPipe, Put } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { RECORD_SORTS, RecordChanged } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { z } from "zod";
import { storedText } from "../stored-text.js";

const Content = z.strictObject({
  text: storedText(0, 10_000),
  sort: z.enum(RECORD_SORTS).default("note"),
});
type Content = z.output<typeof Content>;

@Controller("records")
export class RecordsController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly jobs: JobQueue,
  ) {}

  /**
   * A delivery that waits for the same record will do: it does not start before this is committed, and reads the record
   * then. One that is not replaced runs, and may have read the text before: so others follow.
   */
  @Put(":id")
  @HttpCode(202)
  async save(
    @Param("id", ParseUUIDPipe) recordId: string,
    @Body({ schema: Content }) { text, sort }: Content,
  ) {
    return await this.dataSource.transaction(async (em) => {
      await em.query(
        `insert into samples.record as r (id, text) values ($1, $2)
         on conflict (id) do update set text = excluded.text, revision = r.revision + 1`,
        [recordId, text],
      );
      const jobs = this.jobs.in(em);
      let deliveries = await jobs.publish(
        RecordChanged,
        { recordId },
        { routingKey: sort, key: recordId, onConflict: "replace-payload" },
      );
      if (deliveries.some(({ replaced }) => replaced === false))
        deliveries = await jobs.publish(RecordChanged, { recordId }, { routingKey: sort });
      return Object.fromEntries(
        deliveries.map(({ subscriber, id, deduplicated }) => [
          subscriber,
          { jobId: id, deduplicated },
        ]),
      );
    });
  }
}
