import { Module } from "@nestjs/common";
import { APP_FILTER } from "@nestjs/core";
import { TerminusModule } from "@nestjs/terminus";
import { JobsModule } from "nestjs-pg-jobs";
import { JobsMetricsModule } from "nestjs-pg-jobs/prometheus";
import { JobsHealthIndicator } from "nestjs-pg-jobs/terminus";
import { JobsAdminModule, ProblemFilter } from "nestjs-pg-jobs-admin";
import { Registry } from "prom-client";
import { config } from "./config.js";
import { HealthController } from "./health/health.controller.js";
import { MetricsController } from "./metrics/metrics.controller.js";

/** The operators' deployment: no users' tables, no handlers. */
@Module({
  imports: [
    JobsModule.forRoot({ connection: { url: config.databaseUrl }, schema: config.schema }),
    // Of its own, so that a process can have this app beside another one.
    JobsMetricsModule.forRoot({ registry: new Registry() }),
    JobsAdminModule.forRoot({ tokens: config.tokens }),
    TerminusModule.forRoot({ logger: false }),
  ],
  controllers: [HealthController, MetricsController],
  providers: [JobsHealthIndicator, { provide: APP_FILTER, useClass: ProblemFilter }],
})
export class AdminAppModule {}
