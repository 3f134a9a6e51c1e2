import { JobInspector, type JobPage, type KindDeaths } from "nestjs-pg-jobs";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { type InputOf, Serves } from "../operation/operation.js";
import { Input } from "../request/input.js";
import { listDeadLetters } from "./dead-letters.operations.js";

/** What `GET dead-letters` answers. */
export interface DeadLetters extends JobPage {
  /** What has died within the last hour and is dead still, the most first; null on all pages but the first. */
  lastHour: KindDeaths[] | null;
}

@AdminController()
export class DeadLettersController {
  constructor(private readonly inspector: JobInspector) {}

  @Serves(listDeadLetters)
  async list(@Input() { query }: InputOf<typeof listDeadLetters>): Promise<DeadLetters> {
    const { limit, after, ...filter } = query;
    const [page, lastHour] = await Promise.all([
      this.inspector.list({ ...filter, state: "dead" }, { limit, after }),
      after === undefined ? this.inspector.deaths("1h") : null,
    ]);
    return { ...page, lastHour };
  }
}
