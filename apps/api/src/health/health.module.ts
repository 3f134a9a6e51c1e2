import { Module } from "@nestjs/common";
import { TerminusModule } from "@nestjs/terminus";
import { JobsHealthIndicator } from "nestjs-pg-jobs/terminus";
import { DatabaseHealthIndicator } from "./database-health.indicator.js";
import { HealthController } from "./health.controller.js";

@Module({
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [JobsHealthIndicator, DatabaseHealthIndicator],
})
export class HealthModule {}
