import { Module } from "@nestjs/common";
import { Mailer } from "./mailer.js";
import { ReminderJobs } from "./reminder.jobs.js";

@Module({ providers: [ReminderJobs, Mailer] })
export class RemindersModule {}
