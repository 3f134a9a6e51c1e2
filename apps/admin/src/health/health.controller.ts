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

  /** Open to everybody: so it says whether the job tables can be read, and not what is in them. */
  @Get()
  @HealthCheck()
  async check() {
    return await this.health.check([
      async () => {
        const { jobs } = await this.jobs.check("jobs");
        const session = this.indicators.check("jobs");
        return jobs.status === "down" ? session.down() : session.up();
      },
    ]);
  }

  /** The process turns: it never asks the database, so that nobody is started anew because that is away. */
  @Get("live")
  live(): { status: "ok" } {
    return { status: "ok" };
  }
}
