import { Controller, Get, Header, UseFilters, UseGuards } from "@nestjs/common";
import { JobInspector, type KindCounts, type QueueHealth } from "nestjs-pg-jobs";
import { AdminGuard } from "../admin.guard.js";
import { ProblemFilter } from "../problem.filter.js";

/** What `GET /admin/stats` answers. */
export interface Stats {
  /** Jobs by queue, kind and state. */
  counts: KindCounts[];
  /** Backlog, lag, oldest job, dead letters and expired leases of each queue. */
  queues: QueueHealth[];
  /** Kinds with waiting jobs that no live worker has a handler for. */
  unknownKinds: { queue: string; kind: string }[];
}

@Controller("stats")
@UseGuards(AdminGuard)
@UseFilters(ProblemFilter)
export class StatsController {
  constructor(private readonly inspector: JobInspector) {}

  @Get()
  @Header("cache-control", "no-store")
  async stats(): Promise<Stats> {
    const [counts, queues, unknownKinds] = await Promise.all([
      this.inspector.counts(),
      this.inspector.health(),
      this.inspector.unknownKinds(),
    ]);
    return { counts, queues, unknownKinds };
  }
}
