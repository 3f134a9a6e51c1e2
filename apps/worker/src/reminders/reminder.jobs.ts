import { Injectable } from "@nestjs/common";
import { type JobContext, JobHandler, type PayloadOf, skip } from "nestjs-pg-jobs";
import { Reminder, SendReminder } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { Mailer } from "./mailer.js";

@Injectable()
export class ReminderJobs {
  constructor(
    private readonly dataSource: DataSource,
    private readonly mailer: Mailer,
  ) {}

  /**
   * A job may run again after it has done its work, when the worker dies before that is written: so the row says
   * what was sent, and the mail service gets a key by which it knows the same mail again.
   */
  @JobHandler(SendReminder, { concurrency: 10 })
  async send({ reminderId }: PayloadOf<typeof SendReminder>, job: JobContext) {
    const reminders = this.dataSource.getRepository(Reminder);
    const reminder = await reminders.findOneBy({ id: reminderId });
    if (!reminder) return skip("the reminder was deleted");
    if (reminder.state === "sent") return skip("it was sent before");
    const { to, text } = reminder;
    const { messageId } = await this.mailer.send(
      { to, text },
      { idempotencyKey: job.idempotencyKey, signal: job.signal },
    );
    await reminders.update(
      { id: reminderId, state: "pending" },
      { state: "sent", sentAt: () => "now()" },
    );
    return { messageId };
  }
}
