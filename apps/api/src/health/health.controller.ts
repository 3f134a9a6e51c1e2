import { Controller, Get } from "@nestjs/common";
import { HealthCheck, HealthCheckService } from "@nestjs/terminus";
import { JobsHealthIndicator } from "nestjs-pg-jobs/terminus";
import { DatabaseHealthIndicator } from "./database-health.indicator.js";

@Controller("health")
export class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly database: DatabaseHealthIndicator,
    private readonly jobs: JobsHealthIndicator,
  ) {}

  /** 200 `ok` or `degraded`; 503 when the database is away, or on the way down. */
  @Get()
  @HealthCheck()
  async check() {
    return await this.health.check([
      () => this.database.ping("database"),
      () => this.jobs.check("jobs", { maxLag: "5m", maxBacklog: 10_000 }),
    ]);
  }

  /** The process turns: it never asks the database, so that nobody is started anew because that is away. */
  @Get("live")
  live(): { status: "ok" } {
    return { status: "ok" };
  }
}
