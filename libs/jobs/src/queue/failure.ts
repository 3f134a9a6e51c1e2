import {
  DatabaseUnavailableError,
  EnqueueOutcomeUnknownError,
  JobsError,
  KeyLockedError,
  SchemaNotReadyError,
} from "../job/errors.js";
import { formatJobId } from "../job/job-id.js";
import { isLockTimeout, isServerUnready } from "../pg/sqlstate.js";
import { NEEDED_VERSION } from "../store/migrations/migrate.js";
import { SchemaOutdatedError, isOutcomeUnknown, isUnavailable } from "../store/store.js";
import { StaysUnknownError } from "./insert.js";

/** What a caller gets to see of a failure below; `jobs` are those that the call meant to create. */
export function callerError(
  error: unknown,
  schema: string,
  jobs: readonly { queueId: number; job: { id: string; kind: string } }[] = [],
): unknown {
  if (error instanceof JobsError) return error;
  if (error instanceof SchemaOutdatedError) {
    return new SchemaNotReadyError(schema, error.found === 0 ? null : error.found, NEEDED_VERSION);
  }
  if (error instanceof StaysUnknownError) {
    return new EnqueueOutcomeUnknownError(
      jobs.map((one) => formatJobId(one.queueId, one.job.id)),
      { cause: error.cause },
    );
  }
  if (isOutcomeUnknown(error) || isUnavailable(error) || isServerUnready(error)) {
    return new DatabaseUnavailableError({ cause: error });
  }
  if (isLockTimeout(error)) return new KeyLockedError(jobs[0]?.job.kind ?? "?", { cause: error });
  return error;
}
