import { Param } from "@nestjs/common";
import { JobQueue, type LimitOrder, type LimitView, type QueueView } from "nestjs-pg-jobs";
import { type AdminOperator, Asker } from "../auth/operator.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { refuseHidden } from "../jobs/refusals.js";
import { Payloads } from "../payloads/payloads.js";
import { Input } from "../request/input.js";
import { Snapshot } from "../stats/snapshot.js";
import { type QueueDetails, type QueueSummary, queueList } from "./queue-list.js";
import { getQueue, limitQueue, listQueues, pauseQueue, resumeQueue } from "./queues.operations.js";

@AdminController()
export class QueuesController {
  constructor(
    private readonly snapshot: Snapshot,
    private readonly jobs: JobQueue,
    private readonly payloads: Payloads,
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
    refuseHidden(body.keyPath, this.payloads);
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
    for (const bound of [limit, rate]) refuseHidden(keyIn(bound), this.payloads);
    // It checks them itself.
    const order = { ...rest, limit: limit ?? undefined, rate: rate ?? undefined, by: name };
    return { limits: await this.jobs.queues.limit(queue, order as LimitOrder) };
  }
}

/** The place of a bound for each key, if it has one; what else is wrong with it is found later. */
function keyIn(bound: unknown): string | undefined {
  const { key } = (bound ?? {}) as { key?: unknown };
  return typeof key === "string" ? key.slice(0, 1_000) : undefined;
}
