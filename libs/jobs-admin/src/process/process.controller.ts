import { JobQueue, type ProcessReport } from "nestjs-pg-jobs";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { Input } from "../request/input.js";
import { processQueue } from "./process.operations.js";

@AdminController()
export class ProcessController {
  constructor(private readonly jobs: JobQueue) {}

  @Serves(processQueue)
  async process(@Input() { body }: InputOf<typeof processQueue>): Promise<ProcessReport> {
    const { queue, kind, limit, seconds = 30 } = body;
    return await this.jobs.queues.process(queue!, {
      ...(kind === undefined ? {} : { kind }),
      ...(limit === undefined ? {} : { limit }),
      timeout: seconds * 1_000,
    });
  }
}
