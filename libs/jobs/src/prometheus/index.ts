export { JobsMetricsModule } from "./jobs-metrics.module.js";
export { JobsMetrics } from "./jobs-metrics.js";
export type { AnyRegistry, JobsMetricsOptions } from "./metrics.options.js";
