import { Body, Controller, HttpCode, Param, ParseUUIDPipe, Put } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { RECORD_SORTS } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { z } from "zod";
import { storedText } from "../stored-text.js";
import { publishChange } from "./publish-change.js";
import { saveRecord } from "./save-record.js";

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

  @Put(":id")
  @HttpCode(202)
  async save(
    @Param("id", ParseUUIDPipe) recordId: string,
    @Body({ schema: Content }) { text, sort }: Content,
  ) {
    return await this.dataSource.transaction(async (em) => {
      const sorts = await saveRecord(em, { id: recordId, text, sort });
      const deliveries = await publishChange(this.jobs.in(em), recordId, sorts);
      return Object.fromEntries(
        [...deliveries].map(([subscriber, { id, deduplicated }]) => [
          subscriber,
          { jobId: id, deduplicated },
        ]),
      );
    });
  }
}
