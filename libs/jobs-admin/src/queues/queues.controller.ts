import { Param } from "@nestjs/common";
import { JobQueue, type LimitView, type QueueView } from "nestjs-pg-jobs";
import { type AdminOperator, Asker } from "../auth/operator.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { Input } from "../request/input.js";
import { Snapshot } from "../stats/snapshot.js";
import { type QueueDetails, type QueueSummary, queueList } from "./queue-list.js";
import {
  getQueue,
  limitQueue,
  listQueues,
  orderOf,
  pauseQueue,
  resumeQueue,
} from "./queues.operations.js";

@AdminController()
export class QueuesController {
  constructor(
    private readonly snapshot: Snapshot,
    private readonly jobs: JobQueue,
  ) {}

  @Serves(listQueues)
  async list(): Promise<{ items: QueueSummary[] }> {
    return { items: await queueList(this.snapshot, this.jobs) };
  }

  @Serves(getQueue)
  async get(@Param("name") queue: string): Promise<QueueDetails> {
    // Refuses a queue that nobody knows.
    const limits = await this.jobs.queues.limits(queue);
    const found = (await this.#summary(queue)) ?? (await this.#newest(queue));
    return { ...found, limits };
  }

  async #summary(queue: string): Promise<QueueSummary | undefined> {
    return (await queueList(this.snapshot, this.jobs)).find(({ name }) => name === queue);
  }

  /** It was made after the last look. */
  async #newest(queue: string): Promise<QueueSummary> {
    this.snapshot.forget();
    return (await this.#summary(queue))!;
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
    return { limits: await this.jobs.queues.limit(queue, orderOf(body, name)) };
  }
}
