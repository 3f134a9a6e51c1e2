import { Param } from "@nestjs/common";
import { type Enqueued, JobQueue, type ScheduleView, upcomingTicks } from "nestjs-pg-jobs";
import { type AdminOperator, Asker } from "../auth/operator.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { Payloads, type Visible } from "../payloads/payloads.js";
import { Input } from "../request/input.js";
import {
  listSchedules,
  pauseSchedule,
  resumeSchedule,
  runSchedule,
} from "./schedules.operations.js";

/** A schedule as the API shows it. */
export type Schedule = Visible<ScheduleView & { next: Date[] }>;

const TICKS = 5;

@AdminController()
export class SchedulesController {
  constructor(
    private readonly jobs: JobQueue,
    private readonly payloads: Payloads,
  ) {}

  @Serves(listSchedules)
  async list(@Asker() operator: AdminOperator): Promise<{ items: Schedule[] }> {
    const all = await this.jobs.schedules.list();
    return { items: all.map((one) => this.#shown(one, operator)) };
  }

  @Serves(runSchedule)
  async run(@Param("name") name: string): Promise<Enqueued> {
    return await this.jobs.schedules.runNow(name);
  }

  @Serves(pauseSchedule)
  async pause(
    @Param("name") name: string,
    @Asker() operator: AdminOperator,
    @Input() { body }: InputOf<typeof pauseSchedule>,
  ): Promise<Schedule> {
    const paused = await this.jobs.schedules.pause(name, { ...body, by: operator.name });
    return this.#shown(paused, operator);
  }

  @Serves(resumeSchedule)
  async resume(@Param("name") name: string, @Asker() operator: AdminOperator): Promise<Schedule> {
    return this.#shown(await this.jobs.schedules.resume(name), operator);
  }

  #shown(schedule: ScheduleView, operator: AdminOperator): Schedule {
    return this.payloads.of({ ...schedule, next: upcomingTicks(schedule, TICKS) }, operator);
  }
}
