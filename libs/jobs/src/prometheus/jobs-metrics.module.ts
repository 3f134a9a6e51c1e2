import { type DynamicModule, Module } from "@nestjs/common";
import { atBoot } from "../job/errors.js";
import { JobsMetrics, METRICS_OPTIONS } from "./jobs-metrics.js";
import { type JobsMetricsOptions, parseMetricsOptions } from "./metrics.options.js";

/**
 * Prometheus metrics of the jobs of this process and of the whole database. Needs `JobsModule.forRoot` beside it, and
 * `prom-client`. A worker that `runWorker` runs serves them as `/metrics` beside its probes; elsewhere a controller of yours
 * answers with what {@link JobsMetrics} says.
 */
@Module({})
export class JobsMetricsModule {
  /** @throws OptionsError for an unknown option. */
  static forRoot(options: JobsMetricsOptions = {}): DynamicModule {
    const parsed = atBoot(() => parseMetricsOptions(options));
    return {
      module: JobsMetricsModule,
      // So that controllers of any module can have them.
      global: true,
      providers: [JobsMetrics, { provide: METRICS_OPTIONS, useValue: parsed }],
      exports: [JobsMetrics],
    };
  }
}
