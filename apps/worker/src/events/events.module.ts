import { Module } from "@nestjs/common";
import { EventJobs } from "./event.jobs.js";
import { Subscriber } from "./subscriber.js";

@Module({ providers: [EventJobs, Subscriber] })
export class EventsModule {}
