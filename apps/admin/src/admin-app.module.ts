import { Module } from "@nestjs/common";
import { APP_FILTER } from "@nestjs/core";
import { TerminusModule } from "@nestjs/terminus";
import { JobsModule } from "nestjs-pg-jobs";
import { JobsHealthIndicator } from "nestjs-pg-jobs/terminus";
import { JobsAdminModule, ProblemFilter } from "nestjs-pg-jobs-admin";
import { config } from "./config.js";
import { HealthController } from "./health/health.controller.js";

/** The operators' deployment: no users' tables, no handlers. */
@Module({
  imports: [
    JobsModule.forRoot({ connection: { url: config.databaseUrl }, schema: config.schema }),
    JobsAdminModule.forRoot({ tokens: config.tokens }),
    TerminusModule.forRoot({ logger: false }),
  ],
  controllers: [HealthController],
  providers: [JobsHealthIndicator, { provide: APP_FILTER, useClass: ProblemFilter }],
})
export class AdminAppModule {}
