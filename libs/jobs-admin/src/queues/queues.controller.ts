import { Param } from "@nestjs/common";
import {
  JobInspector,
  JobQueue,
  type LimitOrder,
  type LimitView,
  type QueueView,
} from "nestjs-pg-jobs";
import { type AdminOperator, Asker } from "../auth/operator.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { Input } from "../request/input.js";
import { type QueueDetails, type QueueSummary, queueList } from "./queue-list.js";
import { getQueue, limitQueue, listQueues, pauseQueue, resumeQueue } from "./queues.operations.js";

@AdminController()
export class QueuesController {
  constructor(
    private readonly inspector: JobInspector,
    private readonly jobs: JobQueue,
  ) {}

  @Serves(listQueues)
  async list(): Promise<{ items: QueueSummary[] }> {
    return { items: await queueList(this.inspector, this.jobs) };
  }

  @Serves(getQueue)
  async get(@Param("name") queue: string): Promise<QueueDetails> {
    // Refuses a queue that nobody knows.
    const limits = await this.jobs.queues.limits(queue);
    const all = await queueList(this.inspector, this.jobs);
    return { ...all.find(({ name }) => name === queue)!, limits };
  }

  @Serves(pauseQueue)
  async pause(
    @Param("name") queue: string,
    @Asker() { name }: AdminOperator,
    @Input() { body }: InputOf<typeof pauseQueue>,
  ): Promise<QueueView> {
    return await this.jobs.queues.pause(queue, { ...body, by: name });
  }

  @Serves(resumeQueue)
  async resume(
    @Param("name") queue: string,
    @Input() { query }: InputOf<typeof resumeQueue>,
  ): Promise<QueueView> {
    return await this.jobs.queues.resume(queue, query);
  }

  @Serves(limitQueue)
  async limit(
    @Param("name") queue: string,
    @Asker() { name }: AdminOperator,
    @Input() { body }: InputOf<typeof limitQueue>,
  ): Promise<{ limits: LimitView[] }> {
    const { limit, rate, ...rest } = body;
    // It checks them itself.
    const order = { ...rest, limit: limit ?? undefined, rate: rate ?? undefined, by: name };
    return { limits: await this.jobs.queues.limit(queue, order as LimitOrder) };
  }
}
