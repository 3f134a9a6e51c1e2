import { JobInspector, type WorkerView } from "nestjs-pg-jobs";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { Serves } from "../operation/operation.js";
import { listWorkers } from "./workers.operations.js";

@AdminController()
export class WorkersController {
  constructor(private readonly inspector: JobInspector) {}

  @Serves(listWorkers)
  async list(): Promise<{ items: WorkerView[] }> {
    return { items: await this.inspector.workers() };
  }
}
