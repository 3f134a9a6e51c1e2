import { Controller, Get, Header, Res } from "@nestjs/common";
import type { Response } from "express";
import { JobsMetrics } from "nestjs-pg-jobs/prometheus";
import { ForRole } from "nestjs-pg-jobs-admin";

/** Names of queues and kinds are not for everybody: Prometheus has the token too. */
@Controller("metrics")
export class MetricsController {
  constructor(private readonly metrics: JobsMetrics) {}

  @Get()
  @ForRole("viewer")
  @Header("cache-control", "no-store")
  async scrape(@Res({ passthrough: true }) response: Response): Promise<string> {
    response.setHeader("content-type", this.metrics.contentType);
    return await this.metrics.text();
  }
}
