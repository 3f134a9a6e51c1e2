import { JobInspector, type KindCounts, type QueueHealth } from "nestjs-pg-jobs";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { Serves } from "../operation/operation.js";
import { getStats } from "./stats.operations.js";

/** What `GET stats` answers. */
export interface Stats {
  /** Jobs by queue, kind and state. */
  counts: KindCounts[];
  /** Backlog, lag, oldest job, dead letters and expired leases of each queue. */
  queues: QueueHealth[];
  /** Kinds with waiting jobs that no live worker has a handler for. */
  unknownKinds: { queue: string; kind: string }[];
}

@AdminController()
export class StatsController {
  constructor(private readonly inspector: JobInspector) {}

  @Serves(getStats)
  async stats(): Promise<Stats> {
    const [counts, queues, unknownKinds] = await Promise.all([
      this.inspector.counts(),
      this.inspector.health(),
      this.inspector.unknownKinds(),
    ]);
    return { counts, queues, unknownKinds };
  }
}
