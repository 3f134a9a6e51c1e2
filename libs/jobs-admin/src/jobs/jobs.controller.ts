import {
  Body,
  Controller,
  Get,
  Header,
  HttpCode,
  Param,
  Post,
  UseFilters,
  UseGuards,
} from "@nestjs/common";
import {
  type AttemptError,
  type HistoryEvent,
  JobInspector,
  JobQueue,
  type JobView,
} from "nestjs-pg-jobs";
import { AdminGuard } from "../admin.guard.js";
import { JsonBodyGuard } from "../json-body.guard.js";
import { ProblemException } from "../problem.js";
import { ProblemFilter } from "../problem.filter.js";

/** What `GET /admin/jobs/:id` answers. */
export interface JobDetails extends JobView {
  /** Each failed attempt with its error, stack and causes, oldest first. */
  errors: AttemptError[];
}

@Controller("jobs")
@UseGuards(AdminGuard)
@UseFilters(ProblemFilter)
export class JobsController {
  constructor(
    private readonly inspector: JobInspector,
    private readonly jobs: JobQueue,
  ) {}

  @Get(":id")
  @Header("cache-control", "no-store")
  async get(@Param("id") id: string): Promise<JobDetails> {
    const job = await this.inspector.get(id);
    if (!job) throw unknownJob(id);
    return { ...job, errors: await this.inspector.attempts(id) };
  }

  /** What happened to it, in order. */
  @Get(":id/history")
  @Header("cache-control", "no-store")
  async history(@Param("id") id: string): Promise<HistoryEvent[]> {
    const events = await this.inspector.history(id);
    if (events.length === 0) throw unknownJob(id);
    return events;
  }

  /** The statement decides; the job is read only to say afterwards why not. */
  @Post(":id/requeue")
  @HttpCode(200)
  @UseGuards(JsonBodyGuard)
  async requeue(
    @Param("id") id: string,
    @Body() body: unknown,
  ): Promise<{ id: string; state: "queued" }> {
    const answer = await this.jobs.requeue(id, requeueOptions(body));
    switch (answer) {
      case "queued":
        return { id, state: "queued" };
      case "unknown":
        throw unknownJob(id);
      case "not-requeueable":
      case "key-taken": {
        const job = await this.inspector.get(id);
        const state = job?.state ?? "unknown";
        throw answer === "key-taken"
          ? new ProblemException(
              409,
              "KEY_TAKEN",
              `Another unfinished job holds the key of job ${id}.`,
              {
                state,
                key: job?.key,
              },
            )
          : new ProblemException(
              409,
              "JOB_NOT_REQUEUEABLE",
              `Only a dead or cancelled job can be requeued; job ${id} is ${state}.`,
              { state },
            );
      }
    }
  }
}

const unknownJob = (id: string) =>
  new ProblemException(404, "JOB_UNKNOWN", `There is no job ${id}.`);

/** No body, `{}` or `{ payload }`. */
function requeueOptions(body: unknown): { payload?: unknown } {
  if (body === undefined || body === null) return {};
  const object = typeof body === "object" && !Array.isArray(body);
  const others = object ? Object.keys(body).filter((key) => key !== "payload") : [];
  if (object && others.length === 0) return body;
  throw new ProblemException(
    400,
    "BODY_INVALID",
    `Expected no body, or an object with "payload" and nothing else${others.length > 0 ? `, found ${others.slice(0, 5).join(", ")}` : ""}.`,
  );
}
