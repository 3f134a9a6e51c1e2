import { Body, Controller, HttpCode, Post } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { MakeThumbnail } from "nestjs-pg-jobs-samples";
import { z } from "zod";

const NewThumbnail = z.strictObject({ imageUrl: z.url({ protocol: /^https?$/ }).max(2_000) });
type NewThumbnail = z.output<typeof NewThumbnail>;

@Controller("thumbnails")
export class ThumbnailsController {
  constructor(private readonly jobs: JobQueue) {}

  /** Nothing but the job to commit: no transaction. */
  @Post()
  @HttpCode(202)
  async create(@Body({ schema: NewThumbnail }) { imageUrl }: NewThumbnail) {
    const { id } = await this.jobs.enqueue(MakeThumbnail, { imageUrl });
    return { jobId: id };
  }
}
