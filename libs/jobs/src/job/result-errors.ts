import { JobsError, type ErrorCode, named } from "./errors.js";
import type { JobState } from "./state.js";

/** The base of what `jobs.result` rejects with when there is no result. */
export class JobResultError extends JobsError {
  /** The job, as far as it was seen. */
  constructor(
    code: ErrorCode,
    message: string,
    { id, kind, state }: ResultSubject,
    options?: ErrorOptions,
  ) {
    super(code, message, options);
    this.id = id;
    this.kind = kind;
    this.state = state;
  }

  static {
    named(this, "JobResultError");
  }

  /** The id of the job. */
  readonly id: string;
  /** Its kind; null when it was not found. */
  readonly kind: string | null;
  /** The state in which it was last seen; null when it was not found. */
  readonly state: JobState | null;
}

/** Which job an error is of. */
export interface ResultSubject {
  id: string;
  kind: string | null;
  state: JobState | null;
}

const shown = ({ id, kind }: ResultSubject): string =>
  kind === null ? `job ${id}` : `job ${id} of kind "${kind}"`;

/** The job is dead. */
export class JobResultDeadError extends JobResultError {
  static {
    named(this, "JobResultDeadError");
  }

  constructor(
    subject: ResultSubject,
    /** Name and message of its last error; null when it left none. */
    readonly lastError: { readonly name: string; readonly message: string } | null,
  ) {
    const found = lastError ? `: ${lastError.name}: ${lastError.message}` : "";
    super(
      "RESULT_DEAD",
      `Expected a result of ${shown(subject)}, found it dead${found}. jobs.requeue(id) sends it again.`,
      subject,
    );
  }
}

/** The job was cancelled. */
export class JobResultCancelledError extends JobResultError {
  static {
    named(this, "JobResultCancelledError");
  }

  constructor(subject: ResultSubject) {
    super(
      "RESULT_CANCELLED",
      `Expected a result of ${shown(subject)}, found it cancelled. jobs.requeue(id) sends it again.`,
      subject,
    );
  }
}

/** The handler skipped the job: there was nothing to do, and so there is nothing of the type of its result. */
export class JobResultSkippedError extends JobResultError {
  static {
    named(this, "JobResultSkippedError");
  }

  constructor(
    subject: ResultSubject,
    /** Why it was skipped. */
    readonly reason: string,
  ) {
    super(
      "RESULT_SKIPPED",
      `Expected a result of ${shown(subject)}, found it skipped: ${reason}. Catch this error where that is no fault.`,
      subject,
    );
  }
}

/** There is no such job. */
export class JobResultUnknownError extends JobResultError {
  static {
    named(this, "JobResultUnknownError");
  }

  constructor(id: string) {
    super(
      "RESULT_UNKNOWN",
      `Expected job ${id}, found none. Is its transaction committed? What has finished is pruned after keepFinished, ` +
        `and at once in a queue with keep: false: wait for it while it runs, and keep what is to be read later.`,
      { id, kind: null, state: null },
    );
  }
}

/** The job is over, and its result was not kept: it could not be stored, or the job has left nothing at all. */
export class JobResultNotKeptError extends JobResultError {
  static {
    named(this, "JobResultNotKeptError");
  }

  constructor(
    subject: ResultSubject,
    /** Why its result could not be stored; null when nothing is left of the job. */
    readonly reason: string | null = null,
  ) {
    super(
      "RESULT_NOT_KEPT",
      reason === null
        ? `Expected a result of ${shown(subject)}, found that it is over and has left nothing: its queue has keep: false, ` +
            `or somebody has deleted it. Leave keep out for queues whose results are awaited.`
        : `Expected a result of ${shown(subject)}, found that it has succeeded and its result was not stored. ${reason}`,
      subject,
    );
  }
}

/** The job was not over in time. It goes on. */
export class JobResultTimeoutError extends JobResultError {
  static {
    named(this, "JobResultTimeoutError");
  }

  constructor(
    subject: ResultSubject,
    /** The timeout of the call, in ms. */
    readonly timeoutMs: number,
    options?: ErrorOptions,
  ) {
    const found =
      options?.cause === undefined
        ? subject.state === null
          ? "no answer of the database"
          : `it ${subject.state}`
        : "that the database does not answer (see error.cause)";
    super(
      "RESULT_TIMEOUT",
      `Expected ${shown(subject)} to be over within ${timeoutMs} ms, found ${found}. It goes on; call ` +
        `jobs.result(id) again, or with a longer timeout.`,
      subject,
      options,
    );
  }
}

/** The app is closing: nobody waits here any more. The job goes on. */
export class JobResultClosedError extends JobResultError {
  static {
    named(this, "JobResultClosedError");
  }

  constructor(subject: ResultSubject) {
    super(
      "RESULT_CLOSED",
      `Expected to wait for ${shown(subject)}, found that this app is closing. The job goes on; any process may call ` +
        `jobs.result(id) again.`,
      subject,
    );
  }
}
