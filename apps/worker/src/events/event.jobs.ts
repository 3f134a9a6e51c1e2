import { Injectable } from "@nestjs/common";
import { type JobContext, JobHandler, type PayloadOf } from "nestjs-pg-jobs";
import { DeliverEvent } from "nestjs-pg-jobs-samples";
import { Subscriber } from "./subscriber.js";

@Injectable()
export class EventJobs {
  constructor(private readonly subscriber: Subscriber) {}

  /** Whatever waits must heed the signal: it says that the time is up. */
  @JobHandler(DeliverEvent)
  async deliver({ name }: PayloadOf<typeof DeliverEvent>, job: JobContext) {
    return await this.subscriber.deliver(name, { signal: job.signal });
  }
}
