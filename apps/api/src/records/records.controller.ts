import { Body, Controller, HttpCode, Param, ParseUUIDPipe, Put } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { IndexRecord } from "nestjs-pg-jobs-samples";
import { z } from "zod";

const Content = z.strictObject({ text: z.string().max(10_000) });
type Content = z.output<typeof Content>;

@Controller("records")
export class RecordsController {
  constructor(private readonly jobs: JobQueue) {}

  /** A job that waits for the same record will do: it is given the newest text. */
  @Put(":id")
  @HttpCode(202)
  async save(
    @Param("id", ParseUUIDPipe) recordId: string,
    @Body({ schema: Content }) { text }: Content,
  ) {
    const { id, deduplicated } = await this.jobs.enqueue(
      IndexRecord,
      { recordId, text },
      { key: recordId, onConflict: "replace-payload" },
    );
    return { jobId: id, deduplicated };
  }
}
