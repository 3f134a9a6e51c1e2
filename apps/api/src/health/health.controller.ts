import { Controller, Get } from "@nestjs/common";
import { HealthCheck, HealthCheckService, HealthIndicatorService } from "@nestjs/terminus";
import { JobsHealthIndicator } from "nestjs-pg-jobs/terminus";

@Controller("health")
export class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly indicators: HealthIndicatorService,
    private readonly jobs: JobsHealthIndicator,
  ) {}

  /**
   * 200 `ok` or `degraded`; 503 when the database is away, or on the way down. Open to everybody: so it does not say what is
   * in the job tables. Whoever probes costs no statement more: they are read once in 10 s.
   */
  @Get()
  @HealthCheck()
  async check() {
    return await this.health.check([
      async () => {
        const { jobs } = await this.jobs.check("jobs", { maxLag: "5m", maxBacklog: 10_000 });
        const session = this.indicators.check("jobs");
        if (jobs.status === "down") return session.down();
        return jobs.status === "degraded" ? session.degraded() : session.up();
      },
    ]);
  }

  /** The process turns: it never asks the database, so that nobody is started anew because that is away. */
  @Get("live")
  live(): { status: "ok" } {
    return { status: "ok" };
  }
}
