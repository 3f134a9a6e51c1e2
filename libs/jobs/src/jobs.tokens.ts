/** @internal The options of `forRoot` after checking. */
export const PARSED_OPTIONS = "nestjs-pg-jobs:options";
/** @internal The options of `forWorker` after checking. */
export const WORKER_OPTIONS = "nestjs-pg-jobs:worker-options";
