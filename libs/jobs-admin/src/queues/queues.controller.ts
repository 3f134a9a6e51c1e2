import { Param } from "@nestjs/common";
import { JobQueue, type LimitView, type QueuePart, type QueueView } from "nestjs-pg-jobs";
import { type AdminOperator, Asker } from "../auth/operator.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { refuseKey } from "../jobs/refusals.js";
import { Payloads } from "../payloads/payloads.js";
import { Input } from "../request/input.js";
import { Snapshot } from "../stats/snapshot.js";
import { type QueueDetails, type QueueSummary, queueList } from "./queue-list.js";
import {
  getQueue,
  limitQueue,
  listQueues,
  orderOf,
  partOf,
  pauseQueue,
  resumeQueue,
} from "./queues.operations.js";

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
  async get(@Param("name") queue: string, @Asker() operator: AdminOperator): Promise<QueueDetails> {
    // Refuses a queue that nobody knows.
    const limits = await this.jobs.queues.limits(queue);
    const found = (await this.#summary(queue)) ?? (await this.#newest(queue));
    return { ...found, limits: this.payloads.limits(limits, operator) };
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
    @Asker() operator: AdminOperator,
    @Input() { body }: InputOf<typeof pauseQueue>,
  ): Promise<QueueView> {
    const meant = await this.#meant(queue, body, operator);
    return await this.jobs.queues.pause(queue, { ...body, ...meant, by: operator.name });
  }

  @Serves(resumeQueue)
  async resume(
    @Param("name") queue: string,
    @Asker() operator: AdminOperator,
    @Input() { query }: InputOf<typeof resumeQueue>,
  ): Promise<QueueView> {
    const part = partOf(query);
    const meant = await this.#meant(queue, part, operator);
    return await this.jobs.queues.resume(queue, { ...part, ...meant });
  }

  /** The limit whose key is meant, where it is the only one: if the operator may see what it reads. @throws ProblemException */
  async #meant(
    queue: string,
    { kind, key, keyPath }: QueuePart,
    operator: AdminOperator,
  ): Promise<{ keyPath?: string }> {
    if (key === undefined || keyPath !== undefined) return {};
    const limits = await this.jobs.queues.limits(queue);
    const paths = limits.flatMap((one) =>
      one.kind === (kind ?? null) && one.key !== null ? one.key : [],
    );
    if (paths.length !== 1) return {};
    refuseKey(key, paths, operator, this.payloads);
    // Another one may take its place meanwhile.
    return { keyPath: paths[0]! };
  }

  @Serves(limitQueue)
  async limit(
    @Param("name") queue: string,
    @Asker() operator: AdminOperator,
    @Input() { body }: InputOf<typeof limitQueue>,
  ): Promise<{ limits: LimitView[] }> {
    const order = orderOf(body, operator.name);
    const limits = await this.jobs.queues.limit(queue, order);
    return { limits: this.payloads.limits(limits, operator) };
  }
}
