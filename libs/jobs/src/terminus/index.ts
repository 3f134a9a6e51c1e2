export { JobsHealthIndicator, type JobsHealthOptions } from "./jobs-health.indicator.js";
