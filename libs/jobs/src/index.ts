/** @internal For the packages beside this one. */
export { OptionsCheck } from "./job/options-check.js";
/** @internal For the packages beside this one. */
export { parseCron } from "./job/cron.js";
/** @internal For the packages beside this one. */
export { upcomingTicks } from "./job/upcoming-ticks.js";
/** @internal For the packages beside this one: what calls check before they ask the database. */
export { parseBulkOrder, parseBulkRequest } from "./job/bulk-order.js";
/** @internal */
export { parseJobId } from "./job/job-id.js";
/** @internal */
export { parsePause } from "./job/pause.js";
/** @internal */
export { parseLimitOrder, parseQueueOrder } from "./job/queue-order.js";
/** @internal */
export { payloadText } from "./queue/call.js";
/** @internal Whether a call that has failed so may have done it all the same. */
export { mayBeDone } from "./queue/failure.js";
export { JobsModule } from "./jobs.module.js";
export {
  type BatchOptions,
  type HandlerOptions,
  type HistoryMode,
  type JobsOptions,
  type QueueOptions,
  type WorkerOptions,
  type ConnectionOptions,
} from "./jobs.options.js";
export { runWorker, type RunningWorker } from "./run-worker.js";
export type { HealthOptions, RunWorkerOptions } from "./run-worker.options.js";
export { JobQueue, type TransactionalQueue } from "./queue/job-queue.js";
export type { Item } from "./queue/call.js";
export type { JobSchedules } from "./queue/schedules.js";
export type { JobQueues } from "./queue/queues.js";
export type { QueuePart } from "./job/queue-order.js";
export type { BatchItem } from "./handler/batch.js";
export { OnEvent, type OnEventOptions } from "./handler/on-event.decorator.js";
export {
  type EventDefinition,
  type EventInput,
  type EventOptions,
  type EventPayload,
  defineEvent,
} from "./job/event-definition.js";
export type { FollowOptions } from "./job/follow-options.js";
export type { JobNews } from "./queue/follow.js";
export type { Delivery, PublishOptions } from "./queue/publish.js";
export type { SubscriptionView } from "./store/events/subscriptions.js";
export type {
  LimitOptions,
  LimitOrder,
  LimitRule,
  LimitView,
  Limits,
  RateOptions,
} from "./job/limit.js";
export type { ProcessOptions } from "./job/process-options.js";
export type { ProcessReport } from "./queue/process.js";
export type { PauseOptions, PauseView } from "./job/pause.js";
export type { TransactionLike } from "./queue/transaction.js";
export { type JobLogPage, type JobPage, JobInspector } from "./queue/job-inspector.js";
export { isJobContext } from "./handler/job-host.js";
export { Job, Payload } from "./handler/handler-params.js";
export { JobHandler } from "./handler/job-handler.decorator.js";
export { ScheduledJob, type ScheduledJobOptions } from "./handler/scheduled-job.decorator.js";
export type { DeliveredEvent, ScheduledRun } from "./job/headers.js";
export type { JobContext, JobLogger, TransactionSource } from "./handler/job-context.js";
export {
  defineJob,
  type Definition,
  type DefinitionOptions,
  type ErrorClass,
  type InputOf,
  type JobDefaults,
  type PayloadOf,
  type ResultOf,
} from "./job/definition.js";
export { exponential, fixed, linear, steps, type Backoff } from "./job/backoff.js";
export type { Duration } from "./job/duration.js";
export type { EnqueueOptions, OnConflict } from "./job/enqueue-options.js";
export type { ResultOptions } from "./job/result-options.js";
export {
  JobResultCancelledError,
  JobResultClosedError,
  JobResultDeadError,
  JobResultError,
  JobResultNotKeptError,
  JobResultSkippedError,
  JobResultTimeoutError,
  JobResultUnknownError,
} from "./job/result-errors.js";
export type { Enqueued } from "./job/enqueued.js";
export { bury, skip, snooze, Verdict } from "./job/verdict.js";
export { JOB_EVENTS, type JobEvent, type JobEventName } from "./job/event.js";
export type { Roles } from "./job/roles.js";
export type { ErrorReport } from "./job/error-report.js";
export { JOB_STATES, type JobState } from "./job/state.js";
export type { StandardSchemaV1 } from "./job/standard-schema.js";
export { Events } from "./observe/events.js";
export {
  LISTED_STATES,
  type JobFilter,
  type ListedState,
  type PayloadMatch,
  type PageOptions,
} from "./job/job-filter.js";
export type { HistoryEvent, HistoryEventName } from "./store/reads/history.js";
export type { LogPageOptions } from "./job/log-page.js";
export type { JobLogLine, JobProgress } from "./store/reads/reports.js";
export type { AttemptError, JobSummary, JobView } from "./store/reads/job.js";
export type { KindDeaths, RecentDeaths } from "./store/reads/deaths.js";
export type { KindCounts, QueueCounts, QueueHealth } from "./store/reads/stats.js";
export type { CurrentJob, WorkerView } from "./store/reads/workers.js";
export type { QueueView } from "./store/queues/pauses.js";
export type { ScheduleView, ScheduledJobRun } from "./store/schedules/schedule.js";
export type { Overlap, ScheduleOptions, Timetable } from "./job/schedule.js";
export type { Misfire } from "./job/ticks.js";
export type { CancelAnswer } from "./store/transitions/cancel.js";
export { type AuditPage, type AuditQuery, JobAudit } from "./queue/audit.js";
export type { AuditEntry, Deed } from "./store/operators/audit.js";
/** @internal For the packages beside this one. */
export { JobRequests } from "./queue/requests.js";
export { type BulkPreview, JobBulk } from "./queue/bulk.js";
export {
  BULK_ACTIONS,
  type BulkAction,
  type BulkOrderOptions,
  type BulkRequest,
} from "./job/bulk-order.js";
export { BulkCountError, BulkTooLargeError, UnknownBulkError } from "./job/bulk-errors.js";
export type { BulkState, BulkView } from "./store/operators/bulk.js";
export type { DeleteAnswer } from "./store/transitions/delete.js";
export type { RequeueAnswer } from "./store/transitions/requeue.js";
export {
  BadCursorError,
  BadJobIdError,
  DatabaseRefusedError,
  DatabaseTooSlowError,
  DatabaseUnavailableError,
  ERROR_CODES,
  EnqueueOutcomeUnknownError,
  FollowClosedError,
  JobCancelledError,
  JobLockedError,
  JobTimeoutError,
  JobsError,
  KeyLockedError,
  LaneLockedError,
  LanesUsedUpError,
  LeaseLostError,
  NoWorkerError,
  NotInEncodingError,
  NotJsonError,
  OptionsError,
  PayloadCheckFailedError,
  PayloadInvalidError,
  PayloadTooLargeError,
  ScheduleDeclaredError,
  SearchesBusyError,
  SchemaNotReadyError,
  ShutdownError,
  TransactionEndedError,
  TransactionFailedError,
  TransactionOverError,
  TransactionUsedError,
  UnknownKindError,
  UnknownQueueError,
  UnknownScheduleError,
  UnknownSubscriptionError,
  type ErrorCode,
} from "./job/errors.js";
