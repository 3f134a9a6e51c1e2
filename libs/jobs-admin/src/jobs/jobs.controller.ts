import { Param } from "@nestjs/common";
import {
  type HistoryEvent,
  JobInspector,
  type JobLogPage,
  type JobPage,
  JobQueue,
} from "nestjs-pg-jobs";
import { type AdminOperator, Asker } from "../auth/operator.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { Payloads } from "../payloads/payloads.js";
import { Input } from "../request/input.js";
import { type JobDetails, jobDetails } from "./job-details.js";
import {
  cancelJob,
  deleteJob,
  getHistory,
  getJob,
  getLogs,
  listJobs,
  requeueJob,
} from "./jobs.operations.js";
import { notCancelled, notRequeued, runs, unknownJob } from "./refusals.js";

@AdminController()
export class JobsController {
  constructor(
    private readonly inspector: JobInspector,
    private readonly jobs: JobQueue,
    private readonly payloads: Payloads,
  ) {}

  @Serves(listJobs)
  async list(@Input() { query }: InputOf<typeof listJobs>): Promise<JobPage> {
    const { limit, after, ...filter } = query;
    return await this.inspector.list(filter, { limit, after });
  }

  @Serves(getJob)
  async get(@Param("id") id: string, @Asker() operator: AdminOperator): Promise<JobDetails> {
    const details = await jobDetails(this.inspector, id);
    if (!details) throw unknownJob(id);
    return {
      ...this.payloads.of(details, operator),
      errors: this.payloads.errors(details.errors, operator),
      history: details.history && this.payloads.history(details.history, operator),
    };
  }

  @Serves(getHistory)
  async history(
    @Param("id") id: string,
    @Asker() operator: AdminOperator,
  ): Promise<HistoryEvent[]> {
    const events = await this.inspector.history(id);
    if (events.length === 0) throw unknownJob(id);
    return this.payloads.history(events, operator);
  }

  @Serves(getLogs)
  async logs(
    @Param("id") id: string,
    @Input() { query }: InputOf<typeof getLogs>,
  ): Promise<JobLogPage> {
    const page = await this.inspector.logs(id, query);
    if (page.items.length === 0 && !(await this.inspector.get(id))) throw unknownJob(id);
    return page;
  }

  /** The statement decides; the job is read only to say afterwards why not. */
  @Serves(requeueJob)
  async requeue(
    @Param("id") id: string,
    @Input() { body }: InputOf<typeof requeueJob>,
  ): Promise<{ id: string; state: "queued" }> {
    const { payload } = body;
    const answer = await this.jobs.requeue(id, payload === undefined ? {} : { payload });
    if (answer !== "queued") throw notRequeued(id, answer, await this.inspector.get(id));
    return { id, state: "queued" };
  }

  @Serves(cancelJob)
  async cancel(
    @Param("id") id: string,
  ): Promise<{ id: string; answer: "cancelled" | "requested" }> {
    const answer = await this.jobs.cancel(id);
    if (answer === "cancelled" || answer === "requested") return { id, answer };
    throw notCancelled(id, answer, await this.inspector.get(id));
  }

  @Serves(deleteJob)
  async delete(@Param("id") id: string): Promise<{ id: string; answer: "deleted" }> {
    const answer = await this.jobs.delete(id);
    if (answer === "deleted") return { id, answer };
    throw answer === "unknown" ? unknownJob(id) : runs(id);
  }
}
