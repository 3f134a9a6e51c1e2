import { Param } from "@nestjs/common";
import { type BulkPreview, type BulkView, JobBulk } from "nestjs-pg-jobs";
import { type AdminOperator, Asker } from "../auth/operator.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { ProblemException } from "../problem.js";
import { Payloads } from "../payloads/payloads.js";
import { Input } from "../request/input.js";
import {
  getBulk,
  listBulk,
  orderOf,
  previewBulk,
  requestOf,
  said,
  startBulk,
  stopBulk,
} from "./bulk.operations.js";

const PAGE = 50;

@AdminController()
export class BulkController {
  constructor(
    private readonly bulk: JobBulk,
    private readonly payloads: Payloads,
  ) {}

  @Serves(previewBulk)
  async preview(@Input() { body }: InputOf<typeof previewBulk>): Promise<BulkPreview> {
    return await this.bulk.preview(requestOf(body));
  }

  @Serves(startBulk)
  async start(
    @Asker() operator: AdminOperator,
    @Input() { body }: InputOf<typeof startBulk>,
  ): Promise<BulkView> {
    const made = await this.bulk.start(orderOf(body, operator.name));
    return this.payloads.bulk(made, operator);
  }

  @Serves(listBulk)
  async list(
    @Asker() operator: AdminOperator,
    @Input() { query }: InputOf<typeof listBulk>,
  ): Promise<{ items: BulkView[]; next: string | null }> {
    const { limit = PAGE } = query;
    const items = await this.bulk.list(said({ ...query, limit }));
    const seen = items.map((one) => this.payloads.bulk(one, operator));
    return { items: seen, next: items.length === limit ? items.at(-1)!.id : null };
  }

  @Serves(getBulk)
  async get(@Param("id") id: string, @Asker() operator: AdminOperator): Promise<BulkView> {
    const found = await this.bulk.get(id);
    if (found) return this.payloads.bulk(found, operator);
    throw new ProblemException(404, "BULK_UNKNOWN", `There is no operation ${id.slice(0, 40)}.`);
  }

  @Serves(stopBulk)
  async stop(@Param("id") id: string, @Asker() operator: AdminOperator): Promise<BulkView> {
    return this.payloads.bulk(await this.bulk.stop(id), operator);
  }
}
