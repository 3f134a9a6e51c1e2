import { Module } from "@nestjs/common";
import { TerminusModule } from "@nestjs/terminus";
import { JobsHealthIndicator } from "nestjs-pg-jobs/terminus";
import { HealthController } from "./health.controller.js";

@Module({
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [JobsHealthIndicator],
})
export class HealthModule {}
