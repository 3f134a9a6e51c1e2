import { AUDIT_OPERATIONS, AUDIT_SCHEMAS } from "../audit/audit.operations.js";
import { BULK_OPERATIONS, BULK_SCHEMAS } from "../bulk/bulk.operations.js";
import { DEAD_LETTER_OPERATIONS } from "../dead-letters/dead-letters.operations.js";
import { JOB_OPERATIONS } from "../jobs/jobs.operations.js";
import { JOB_SCHEMAS } from "../jobs/jobs.schemas.js";
import { EVENT_OPERATIONS, EVENT_SCHEMAS } from "../events/events.operations.js";
import type { Operation } from "../operation/operation.js";
import { PROCESS_OPERATIONS, PROCESS_SCHEMAS } from "../process/process.operations.js";
import { QUEUE_OPERATIONS } from "../queues/queues.operations.js";
import { QUEUE_SCHEMAS } from "../queues/queues.schemas.js";
import { getRoutes } from "../root/root.operations.js";
import { SCHEDULE_OPERATIONS } from "../schedules/schedules.operations.js";
import { SCHEDULE_SCHEMAS } from "../schedules/schedules.schemas.js";
import { STATS_OPERATIONS, STATS_SCHEMAS } from "../stats/stats.operations.js";
import { WORKER_OPERATIONS, WORKER_SCHEMAS } from "../workers/workers.operations.js";
import { getOpenApi } from "./openapi.operations.js";
import type { Schema } from "./schema.js";

/** Every operation of the API. */
export const OPERATIONS: readonly Operation[] = [
  getRoutes,
  ...STATS_OPERATIONS,
  ...EVENT_OPERATIONS,
  ...JOB_OPERATIONS,
  ...DEAD_LETTER_OPERATIONS,
  ...QUEUE_OPERATIONS,
  ...SCHEDULE_OPERATIONS,
  ...WORKER_OPERATIONS,
  ...PROCESS_OPERATIONS,
  ...BULK_OPERATIONS,
  ...AUDIT_OPERATIONS,
  getOpenApi,
];

/** What they answer, by name. */
export const SCHEMAS: Readonly<Record<string, Schema>> = {
  ...STATS_SCHEMAS,
  ...EVENT_SCHEMAS,
  ...JOB_SCHEMAS,
  ...QUEUE_SCHEMAS,
  ...SCHEDULE_SCHEMAS,
  ...WORKER_SCHEMAS,
  ...PROCESS_SCHEMAS,
  ...BULK_SCHEMAS,
  ...AUDIT_SCHEMAS,
};
