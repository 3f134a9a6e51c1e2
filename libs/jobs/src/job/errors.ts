/**
 * Every error this package throws (those of awaited results are in `result-errors.ts`), and the one table of their codes.
 * Messages say what was expected, what was found and what to do. They never hold payload values or
 * credentials: they end up in logs, in `last_error` and on dashboards.
 */

/** What each `error.code` means; codes are stable, messages are not. */
export const ERROR_CODES = Object.freeze({
  OPTIONS_INVALID: "an option is unknown or has a bad value",
  PAYLOAD_NOT_JSON: "the payload holds something JSON cannot carry",
  PAYLOAD_TOO_LARGE: "the payload is longer than `payloadLimit`",
  PAYLOAD_INVALID: "the payload does not fit the schema of its definition",
  PAYLOAD_CHECK_FAILED: "the schema of the definition threw, or gave no answer of its contract",
  JOB_ID_INVALID: "the text is not a job id",
  CURSOR_INVALID: "the text is not the cursor of a list",
  SCHEMA_NOT_READY: "the database schema is missing or older than this version needs",
  DATABASE_UNAVAILABLE:
    "the database did not answer, did not let us in, or takes no writes; an enqueue created no job",
  DATABASE_TOO_SLOW:
    "the database gave a statement up: it took longer than it may; nothing was changed",
  SEARCHES_BUSY: "as many searches in errors and payloads wait already as may in one process",
  DATABASE_REFUSED: "the role of the connection lacks a right; nothing was changed",
  NOT_IN_ENCODING:
    "a name, a key or a payload has a character that the encoding of the database lacks",
  ENQUEUE_OUTCOME_UNKNOWN: "the connection was lost while committing; the jobs may exist",
  KEY_LOCKED: "another open transaction holds the same key",
  JOB_LOCKED: "another open transaction holds the job",
  LANE_LOCKED: "an open transaction adds to the kinds and priorities of the queue",
  QUEUE_UNKNOWN: "no queue has this name yet",
  KIND_UNKNOWN: "the queue has had no job of this kind yet",
  NO_WORKER: "no worker that lives takes jobs of the queue, or of the kind",
  SCHEDULE_UNKNOWN: "there is no schedule of this name",
  SUBSCRIPTION_UNKNOWN: "nobody of this name has subscribed to the event",
  SCHEDULE_DECLARED: "the schedule is declared by code, and changed there",
  LANES_USED_UP: "the queue has had all kinds and priorities that it can tell apart",
  LEASE_LOST: "the attempt is no longer the current one of its job",
  TRANSACTION_USED: "the attempt has had its transaction",
  TRANSACTION_FAILED: "a statement of the transaction had failed before",
  TRANSACTION_ENDED: "job.transaction() found that fn had ended its transaction",
  TRANSACTION_OVER: "the connection of a transaction was used after its end, or closed",
  TIMEOUT: "the attempt ran longer than its timeout",
  CANCELLED: "the cancel of the job was requested while it ran",
  SHUTDOWN: "the worker is draining and the grace period is over",
  RESULT_DEAD: "the job whose result was awaited is dead",
  RESULT_CANCELLED: "the job whose result was awaited was cancelled",
  RESULT_SKIPPED: "the job whose result was awaited was skipped",
  RESULT_UNKNOWN: "there is no job of this id to wait for",
  RESULT_NOT_KEPT:
    "the job whose result was awaited is over; its result could not be stored, or its queue keeps nothing",
  RESULT_TIMEOUT: "the job was not over within the timeout of the call; it goes on",
  RESULT_CLOSED: "the app closed while it waited for a result; the job goes on",
  BULK_COUNT_DIFFERS: "other jobs fit the filter of a bulk operation than were expected",
  BULK_TOO_LARGE: "more jobs fit the filter of a bulk operation than it may change",
  BULK_UNKNOWN: "there is no bulk operation of this id",
  FOLLOW_CLOSED: "the app closed while it followed a job; the job goes on",
});

/** The codes of {@link ERROR_CODES}. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** The base of every error of this package; `code` is stable and made for `switch`. */
export class JobsError extends Error {
  readonly code: ErrorCode;
  /** The position of the item in `enqueueMany` that raised it; absent for every other call. */
  declare index?: number;

  static {
    named(this, "JobsError");
  }

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Unknown option keys and bad option values, all of one call at once. */
export class OptionsError extends JobsError {
  /** One sentence a problem, in the order of the options; not enumerable, the message has them already. */
  declare readonly problems: readonly string[];

  static {
    named(this, "OptionsError");
  }

  constructor(subject: string, problems: readonly string[], options?: ErrorOptions) {
    const list = problems.map((problem) => `\n  - ${problem}`).join("");
    super("OPTIONS_INVALID", `Invalid ${subject}:${list}`, options);
    Object.defineProperty(this, "problems", { value: Object.freeze([...problems]) });
  }
}

/** Bad options met while an app boots lie in no frame of the stack: the message is all that helps. */
export function atBoot<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof OptionsError) error.stack = `${error.name}: ${error.message}`;
    throw error;
  }
}

/** A payload that JSON cannot carry; the message says where and what to send instead. */
export class NotJsonError extends JobsError {
  /** Where it was found, e.g. `payload.items[3].at`. */
  readonly path: string;

  static {
    named(this, "NotJsonError");
  }

  constructor(path: string, found: string, advice = "Send plain JSON data instead.") {
    super("PAYLOAD_NOT_JSON", `Expected JSON at ${path}, found ${found}. ${advice}`);
    this.path = path;
  }
}

/** A payload whose JSON text is longer than `payloadLimit`. */
export class PayloadTooLargeError extends JobsError {
  static {
    named(this, "PayloadTooLargeError");
  }

  constructor(
    kind: string,
    /** The length found, in bytes of UTF-8. */
    readonly bytes: number,
    /** The length allowed, in bytes of UTF-8. */
    readonly limit: number,
  ) {
    super(
      "PAYLOAD_TOO_LARGE",
      `Expected a payload of "${kind}" of at most ${limit} bytes, found ${bytes}. ` +
        `Store the data elsewhere and send a reference, or raise payloadLimit.`,
    );
  }
}

/** One complaint of a schema. */
export interface PayloadIssue {
  /** Where, e.g. `payload.items[3].at`. */
  readonly path: string;
  /** The words of the schema library; may quote the payload, so keep it out of logs. */
  readonly message: string;
}

/** A payload that does not fit the schema of its definition; the message names the paths only. */
export class PayloadInvalidError extends JobsError {
  /** What the schema said; not enumerable, because schema libraries quote the payload. */
  declare readonly issues: readonly PayloadIssue[];

  static {
    named(this, "PayloadInvalidError");
  }

  constructor(kind: string, issues: readonly PayloadIssue[]) {
    const paths = [...new Set(issues.map((issue) => issue.path))];
    const more = paths.length > 10 ? ` and ${paths.length - 10} more` : "";
    super(
      "PAYLOAD_INVALID",
      `Expected a payload that fits the schema of "${kind}", found problems at ` +
        `${paths.slice(0, 10).join(", ")}${more}. See error.issues for what the schema says.`,
    );
    Object.defineProperty(this, "issues", { value: Object.freeze([...issues]) });
  }
}

/** The schema of a definition failed to say whether a payload fits; what it threw is the `cause`. */
export class PayloadCheckFailedError extends JobsError {
  static {
    named(this, "PayloadCheckFailedError");
  }

  constructor(kind: string, options?: ErrorOptions) {
    super(
      "PAYLOAD_CHECK_FAILED",
      `Expected the schema of "${kind}" to answer with a value or issues, found that it threw or ` +
        `answered something else. Mend the schema; see error.cause.`,
      options,
    );
  }
}

/** A text that is not a job id. */
export class BadJobIdError extends JobsError {
  static {
    named(this, "BadJobIdError");
  }

  constructor(found: string) {
    super(
      "JOB_ID_INVALID",
      `Expected a job id such as "7-1048577", found ${found}. Use the id that enqueue returned.`,
    );
  }
}

/** A text that is not the cursor of a list. */
export class BadCursorError extends JobsError {
  static {
    named(this, "BadCursorError");
  }

  constructor(found: string) {
    super(
      "CURSOR_INVALID",
      `Expected the "next" of an earlier page, found ${found}. Begin again without "after".`,
    );
  }
}

/** No queue has this name yet. */
export class UnknownQueueError extends JobsError {
  static {
    named(this, "UnknownQueueError");
  }

  constructor(found: string, near?: string) {
    super(
      "QUEUE_UNKNOWN",
      `Expected a queue that has had a job or a worker, found ${JSON.stringify(found)}` +
        `${near === undefined ? "." : `; did you mean ${JSON.stringify(near)}?`} jobs.queues.list() has them all.`,
    );
  }
}

/** The queue has had no job of this kind yet. */
export class UnknownKindError extends JobsError {
  static {
    named(this, "UnknownKindError");
  }

  constructor(queue: string, found: string, near?: string) {
    super(
      "KIND_UNKNOWN",
      `Expected a kind that the queue ${JSON.stringify(queue)} has had a job of, found ${JSON.stringify(found)}` +
        `${near === undefined ? "." : `; did you mean ${JSON.stringify(near)}?`} jobs.declare(queue, kind) in SQL makes one ahead.`,
    );
  }
}

/** Nobody is there who could work something off. */
export class NoWorkerError extends JobsError {
  static {
    named(this, "NoWorkerError");
  }

  constructor(queue: string, kind: string | null) {
    const what = kind === null ? "" : `, kind ${JSON.stringify(kind)}`;
    super(
      "NO_WORKER",
      `Expected a living worker that takes jobs of queue ${JSON.stringify(queue)}${what}, found none. ` +
        `Nothing was started; start a worker, or see inspector.workers().`,
    );
  }
}

/** There is no schedule of this name. */
export class UnknownScheduleError extends JobsError {
  static {
    named(this, "UnknownScheduleError");
  }

  constructor(found: string, near?: string) {
    super(
      "SCHEDULE_UNKNOWN",
      `Expected the name of a schedule, found ${found}` +
        `${near === undefined ? "." : `; did you mean ${JSON.stringify(near)}?`} jobs.schedules.list() has them all.`,
    );
  }
}

/** Nobody of this name has subscribed to the event. */
export class UnknownSubscriptionError extends JobsError {
  static {
    named(this, "UnknownSubscriptionError");
  }

  constructor(event: string, found: string, near?: { event: string; name: string }) {
    const other = near && near.event !== event ? ` of ${JSON.stringify(near.event)}` : "";
    super(
      "SUBSCRIPTION_UNKNOWN",
      `Expected the name of a subscriber of event ${JSON.stringify(event)}, found ${JSON.stringify(found)}` +
        `${near === undefined ? "." : `; did you mean ${JSON.stringify(near.name)}${other}?`} jobs.subscriptions() has them all.`,
    );
  }
}

/** Code declares the schedule: what a call changes, the next deploy would change back. */
export class ScheduleDeclaredError extends JobsError {
  static {
    named(this, "ScheduleDeclaredError");
  }

  constructor(name: string, service: string) {
    super(
      "SCHEDULE_DECLARED",
      `Expected a schedule that was made by jobs.schedules.upsert(), found that @ScheduledJob declares ` +
        `${JSON.stringify(name)} in the service "${service}". Nothing was changed; change it there, or pause it.`,
    );
  }
}

/** The database schema is missing or older than this version of the package needs. */
export class SchemaNotReadyError extends JobsError {
  static {
    named(this, "SchemaNotReadyError");
  }

  constructor(
    /** The name of the schema. */
    readonly schema: string,
    /** The version found; null when the schema is missing. */
    readonly found: number | null,
    /** The lowest version that serves. */
    readonly needed: number,
    /** What needs it, when all the rest works on the schema that was found. */
    readonly feature?: string,
    /** The connection of the module has it, the caller's transaction has not. */
    onlyInTransaction = false,
  ) {
    super(
      "SCHEMA_NOT_READY",
      onlyInTransaction
        ? `Expected schema "${schema}" in the database of the transaction, found none there, though the ` +
            `connection of JobsModule has it. Is the transaction one of another database? No job was created.`
        : `Expected schema "${schema}" at version ${needed} or newer${feature ? ` for ${feature}` : ""}, found ` +
            `${found === null ? "none" : `version ${found}`}. ` +
            `Run "pg-jobs migrate", or set migrate: 'on-start'.`,
    );
  }
}

/** The database did not answer, did not let us in, or takes no writes; an enqueue created no job and may simply be repeated. */
export class DatabaseUnavailableError extends JobsError {
  static {
    named(this, "DatabaseUnavailableError");
  }

  /**
   * @param found what came instead of an answer.
   * @param consequence what it means for the call, and what to do.
   */
  constructor(found = "none", consequence = "Repeat the call.", options?: ErrorOptions) {
    super(
      "DATABASE_UNAVAILABLE",
      `Expected an answer of the database, found ${found}. ${consequence}`,
      options,
    );
  }
}

/** The database gave a statement up, because it took longer than it may; nothing was changed. */
export class DatabaseTooSlowError extends JobsError {
  static {
    named(this, "DatabaseTooSlowError");
  }

  /**
   * @param found what the server says of it.
   * @param consequence what it means for the call, and what to do.
   */
  constructor(found: string, consequence = "Repeat the call.", options?: ErrorOptions) {
    super(
      "DATABASE_TOO_SLOW",
      `Expected the database to answer in time, found that it gave the statement up: ${found}. ${consequence}`,
      options,
    );
  }
}

/** As many searches in errors and payloads are under way, and wait, as may in one process. */
export class SearchesBusyError extends JobsError {
  static {
    named(this, "SearchesBusyError");
  }

  constructor(underWay: number, waiting: number) {
    super(
      "SEARCHES_BUSY",
      `Expected no more than ${waiting} searches in errors and payloads to wait for the ${underWay} that this process does ` +
        `at once, found one more. Repeat the call in a few seconds; narrow the filters by kind, queue or time.`,
    );
  }
}

/** The role of the connection lacks a right; nothing was changed. */
export class DatabaseRefusedError extends JobsError {
  static {
    named(this, "DatabaseRefusedError");
  }

  constructor(
    /** The name of the schema. */
    readonly schema: string,
    /** What the server says is missing. */
    found: string,
    /** What it means for the call, and what to do. */
    consequence = "Grant it, then repeat the call.",
    options?: ErrorOptions,
  ) {
    super(
      "DATABASE_REFUSED",
      `Expected the role of the connection to have every right it needs in schema "${schema}", found: ` +
        `${found}. ${consequence} docs/roles.md says how.`,
      options,
    );
  }
}

/** A name, a key or a payload has a character that the encoding of the database lacks; with UTF8 it lacks none. */
export class NotInEncodingError extends JobsError {
  static {
    named(this, "NotInEncodingError");
  }

  /**
   * @param what whatever does not fit.
   * @param where of it the character is.
   * @param consequence what it means for the call.
   */
  constructor(
    what: string,
    /** The encoding of the database, such as `LATIN1`. */
    readonly encoding: string,
    /** The character that it lacks; undefined when the server does not say which. */
    readonly character: string | undefined,
    where = "",
    consequence = "",
    options?: ErrorOptions,
  ) {
    const found = character === undefined ? "a character" : codePoint(character);
    super(
      "NOT_IN_ENCODING",
      `Expected ${what} to fit the encoding of the database, which is ${encoding}, found ${found}${where}, which ` +
        `it lacks. ${consequence}Leave it out, or use a database whose encoding is UTF8.`,
      options,
    );
  }
}

const codePoint = (character: string): string =>
  `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;

/** The connection was lost while committing: the jobs may or may not exist. */
export class EnqueueOutcomeUnknownError extends JobsError {
  /** The ids of the jobs in input order; `jobs.get(id)` tells whether they exist. */
  readonly ids: readonly string[];

  static {
    named(this, "EnqueueOutcomeUnknownError");
  }

  constructor(ids: readonly string[], options?: ErrorOptions) {
    const shown = ids.slice(0, 3).join(", ") + (ids.length > 3 ? ", …" : "");
    super(
      "ENQUEUE_OUTCOME_UNKNOWN",
      `Expected the commit of ${ids.length} job(s) (${shown}) to be confirmed, found the ` +
        `connection lost. Ask jobs.get(id) for each of error.ids, or repeat with the same key.`,
      options,
    );
    this.ids = Object.freeze([...ids]);
  }
}

/** Another open transaction has enqueued a job with the same key and has not ended yet. */
export class KeyLockedError extends JobsError {
  static {
    named(this, "KeyLockedError");
  }

  constructor(kind: string, options?: ErrorOptions) {
    super(
      "KEY_LOCKED",
      `Expected the key of this job of kind "${kind}" to be free, found another open transaction ` +
        `holding it. No job was created; end that transaction sooner, or repeat the call.`,
      options,
    );
  }
}

/** Another open transaction has changed this job (a cancel, say) and has not ended yet. */
export class JobLockedError extends JobsError {
  static {
    named(this, "JobLockedError");
  }

  constructor(
    /** The id of the job. */
    readonly id: string,
    options?: ErrorOptions,
  ) {
    super(
      "JOB_LOCKED",
      `Expected job ${id} to be free to change, found another open transaction holding it. ` +
        `Nothing was changed; end that transaction sooner, or repeat the call.`,
      options,
    );
  }
}

/**
 * An open transaction has made this queue, or the first of another kind or priority in it, by SQL, and has not ended
 * yet; the caller's own one may be it.
 */
export class LaneLockedError extends JobsError {
  static {
    named(this, "LaneLockedError");
  }

  constructor(queue: string, kind: string, priority: number, options?: ErrorOptions) {
    super(
      "LANE_LOCKED",
      `Expected to add kind "${kind}" with priority ${priority} to queue "${queue}", where it is new, found that ` +
        `an open transaction has locked that queue, to add to it. No job was created; end that transaction sooner, or ` +
        `repeat the call. When it is the caller's own, which has used the SQL function declare(), or enqueue() with a ` +
        `new priority, that never helps: declare in a transaction of its own, committed before.`,
      options,
    );
  }
}

/** The queue has had as many different kinds and priorities as it can tell apart; no job was created. */
export class LanesUsedUpError extends JobsError {
  static {
    named(this, "LanesUsedUpError");
  }

  constructor(options?: ErrorOptions) {
    super(
      "LANES_USED_UP",
      "Expected at most 10000 different pairs of kind and priority in one queue, found all of them used. No job " +
        "was created. Do not put data into the names of kinds: that is what payloads and keys are for; or use " +
        "another queue.",
      options,
    );
  }
}

/** The attempt is no longer the current one: what it tried to write was refused. */
export class LeaseLostError extends JobsError {
  static {
    named(this, "LeaseLostError");
  }

  constructor(
    /** The id of the job. */
    readonly id: string,
    /** The number of the attempt that was refused. */
    readonly attempt: number,
  ) {
    super(
      "LEASE_LOST",
      `Expected attempt ${attempt} to be the current one of job ${id}, found that it is not any ` +
        `more. Nothing was written; stop working on it.`,
    );
  }
}

/** `job.transaction()` was called again: it ends the attempt, and an attempt ends once. `cause`: why the first has failed. */
export class TransactionUsedError extends JobsError {
  static {
    named(this, "TransactionUsedError");
  }

  constructor(
    /** The id of the job. */
    readonly id: string,
    { cause }: ErrorOptions = {},
  ) {
    const after = cause === undefined ? "" : " after the first has failed (see error.cause)";
    super(
      "TRANSACTION_USED",
      `Expected one job.transaction() in an attempt of job ${id}, found another${after}: it ends the attempt. ` +
        `Write everything in one of them; after a failure let the job run again.`,
      cause === undefined ? undefined : { cause },
    );
  }
}

/**
 * A statement in the transaction of `job.transaction()` or `jobs.in(tx)` had failed: such a transaction cannot commit.
 * Also where it was rolled back after `fn` had ended, though its source has thrown nothing.
 */
export class TransactionFailedError extends JobsError {
  static {
    named(this, "TransactionFailedError");
  }

  constructor(
    /** The id of the job whose transaction it was; null when it was one of `jobs.in(tx)`. */
    readonly id: string | null,
    { atCommit, ...options }: ErrorOptions & { atCommit?: boolean } = {},
  ) {
    super(
      "TRANSACTION_FAILED",
      id === null
        ? `Expected the transaction of jobs.in(tx) to be sound, found that a statement in it had failed before: it ` +
            `takes no other. The call has changed nothing; roll back, wholly or to a savepoint; see error.cause.`
        : atCommit
          ? `Expected the transaction of job ${id} to commit, found it rolled back: a statement that was sent after ` +
            `fn had ended has failed, in a subscriber, in the source, or because nobody waited for it. Nothing is ` +
            `written. Await each statement, and let its error be thrown.`
          : `Expected the transaction of job ${id} to be sound when fn ended, found that a statement in it had failed ` +
            `and fn went on: all is rolled back. Throw its error, or put the statement into a savepoint; see error.cause.`,
      options,
    );
  }
}

/**
 * `fn` of `job.transaction()` has ended the transaction itself, and perhaps begun another: the success was not written.
 * What it had committed stays, and comes again with the next attempt.
 */
export class TransactionEndedError extends JobsError {
  static {
    named(this, "TransactionEndedError");
  }

  constructor(
    /** The id of the job. */
    readonly id: string,
  ) {
    super(
      "TRANSACTION_ENDED",
      `Expected the transaction of job ${id} to last until fn ends, found that fn has ended it, by commit or ` +
        `rollback, or has reset all settings: the success is not written, and what is not committed is rolled back. ` +
        `Leave the end of it to job.transaction(); undo a part of it with a savepoint.`,
    );
  }
}

/** The connection of a transaction was used when that was over, or was closed: nothing was changed. */
export class TransactionOverError extends JobsError {
  static {
    named(this, "TransactionOverError");
  }

  constructor(
    /** The id of the job whose transaction it was; null when it was one of `jobs.in(tx)`. */
    readonly id: string | null,
    options?: ErrorOptions,
  ) {
    super(
      "TRANSACTION_OVER",
      id === null
        ? `Expected the connection of jobs.in(tx) to be open, found it closed, given back or lost. The call has ` +
            `changed nothing; call it in another transaction; see error.cause.`
        : `Expected the connection of job.transaction() to be used while it lasts, found that the transaction of this ` +
            `job is over (${id}). Nothing was sent; await inside of it whatever uses the connection.`,
      options,
    );
  }
}

/** The attempt ran longer than its timeout; counts as a failure, may stand in retryOn and buryOn. */
export class JobTimeoutError extends JobsError {
  static {
    named(this, "JobTimeoutError");
  }

  constructor(
    /** The timeout of the attempt, in ms. */
    readonly timeoutMs: number,
  ) {
    super(
      "TIMEOUT",
      `Expected the handler to end within ${timeoutMs} ms, found it still running. ` +
        `Pass job.signal to what it waits for, or raise the timeout.`,
    );
  }
}

/**
 * The abort reason of `job.signal` when somebody has called `jobs.cancel(id)`: what the body throws from then on ends
 * the job as cancelled, a body that succeeds all the same has succeeded.
 */
export class JobCancelledError extends JobsError {
  static {
    named(this, "JobCancelledError");
  }

  constructor(
    /** The id of the job. */
    readonly id: string,
  ) {
    super(
      "CANCELLED",
      `Expected job ${id} to go on, found that its cancel was requested. ` +
        `Stop working on it and throw: then it ends as cancelled.`,
    );
  }
}

/** The abort reason of `job.signal` when a draining worker has run out of grace; costs no attempt. */
export class ShutdownError extends JobsError {
  static {
    named(this, "ShutdownError");
  }

  constructor() {
    super("SHUTDOWN", "The worker is shutting down; this job is handed back to the queue.");
  }
}

/** The app is closing: nobody follows a job here any more. The job goes on. */
export class FollowClosedError extends JobsError {
  static {
    named(this, "FollowClosedError");
  }

  constructor(
    /** The id of the job. */
    readonly id: string,
  ) {
    super(
      "FOLLOW_CLOSED",
      `Expected to follow job ${id}, found that this app is closing. The job goes on; any process may call ` +
        `inspector.follow(id, { after }) with the last line's after.`,
    );
  }
}

/** Marks an error as raised by item `index` (from 0) of `enqueueMany`; returns the same error. */
export function atIndex<E extends Error>(error: E, index: number): E & { index: number } {
  return Object.assign(error, { index });
}

// on the prototype: set per instance, it would come too late for the first line of the stack
export function named(ctor: { prototype: object }, name: string): void {
  Object.defineProperty(ctor.prototype, "name", {
    value: name,
    configurable: true,
    writable: true,
  });
}
