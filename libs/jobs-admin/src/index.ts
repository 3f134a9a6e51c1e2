export { JobsAdminModule, type JobsAdminOptions } from "./jobs-admin.module.js";
export { type Problem, ProblemException } from "./problem.js";
export { ProblemFilter } from "./problem.filter.js";
export type { Stats } from "./stats/stats.controller.js";
export type { JobDetails } from "./jobs/jobs.controller.js";
