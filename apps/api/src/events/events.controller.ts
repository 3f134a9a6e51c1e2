import { Body, Controller, HttpCode, Post } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { DeliverEvent } from "nestjs-pg-jobs-samples";
import { z } from "zod";

const NewEvent = z.strictObject({ name: z.string().min(1).max(200), data: z.json() });
type NewEvent = z.output<typeof NewEvent>;

@Controller("events")
export class EventsController {
  constructor(private readonly jobs: JobQueue) {}

  @Post()
  @HttpCode(202)
  async create(@Body({ schema: NewEvent }) event: NewEvent) {
    const { id } = await this.jobs.enqueue(DeliverEvent, event);
    return { jobId: id };
  }
}
