import { Body, Controller, HttpCode, Param, ParseUUIDPipe, Put } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { IndexRecord } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { z } from "zod";
import { storedText } from "../stored-text.js";

const Content = z.strictObject({ text: storedText(0, 10_000) });
type Content = z.output<typeof Content>;

@Controller("records")
export class RecordsController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly jobs: JobQueue,
  ) {}

  /**
   * A job that waits for the same record will do: it does not start before this is committed, and reads the record
   * then. One that is not replaced runs, and may have read the text before: so another one follows.
   */
  @Put(":id")
  @HttpCode(202)
  async save(
    @Param("id", ParseUUIDPipe) recordId: string,
    @Body({ schema: Content }) { text }: Content,
  ) {
    return await this.dataSource.transaction(async (em) => {
      await em.query(
        `insert into samples.record as r (id, text) values ($1, $2)
         on conflict (id) do update set text = excluded.text, revision = r.revision + 1`,
        [recordId, text],
      );
      const jobs = this.jobs.in(em);
      let job = await jobs.enqueue(
        IndexRecord,
        { recordId },
        { key: recordId, onConflict: "replace-payload" },
      );
      if (job.replaced === false) job = await jobs.enqueue(IndexRecord, { recordId });
      return { jobId: job.id, deduplicated: job.deduplicated };
    });
  }
}
