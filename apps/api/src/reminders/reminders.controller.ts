import {
  Body,
  Controller,
  Get,
  NotFoundException,
  Param,
  ParseUUIDPipe,
  Post,
} from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { Reminder, SendReminder } from "nestjs-pg-jobs-samples";
import { randomUUID } from "node:crypto";
import { DataSource } from "typeorm";
import { NewReminder } from "./new-reminder.js";

@Controller("reminders")
export class RemindersController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly jobs: JobQueue,
  ) {}

  /** The reminder and its job are committed together, or neither is. */
  @Post()
  async create(@Body({ schema: NewReminder }) { to, text }: NewReminder) {
    return await this.dataSource.transaction(async (em) => {
      const id = randomUUID();
      await em.insert(Reminder, { id, to, text });
      const job = await this.jobs.in(em).enqueue(SendReminder, { reminderId: id });
      return { id, jobId: job.id };
    });
  }

  @Get(":id")
  async get(@Param("id", ParseUUIDPipe) id: string): Promise<Reminder> {
    const reminder = await this.dataSource.getRepository(Reminder).findOneBy({ id });
    if (!reminder) throw new NotFoundException(`no reminder ${id}`);
    return reminder;
  }
}
