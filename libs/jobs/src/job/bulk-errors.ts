import { JobsError, named } from "./errors.js";

/** Other jobs fit the filter than were expected: nothing was done. */
export class BulkCountError extends JobsError {
  static {
    named(this, "BulkCountError");
  }

  constructor(
    /** What the call said. */
    readonly expected: number,
    /** How many fit now. */
    readonly found: number,
  ) {
    super(
      "BULK_COUNT_DIFFERS",
      `Expected ${expected} jobs to fit the filter, found ${found}. Nothing was changed; look at the preview, and repeat ` +
        `the call with the count that it shows.`,
    );
  }
}

/** More jobs fit the filter than one bulk operation may change. */
export class BulkTooLargeError extends JobsError {
  static {
    named(this, "BulkTooLargeError");
  }

  constructor(
    /** So many at most. */
    readonly most: number,
    /** So many were counted before it was given up. */
    readonly found: number,
  ) {
    super(
      "BULK_TOO_LARGE",
      `Expected at most ${most} jobs that can be counted in a few seconds, found ${found} so far. Nothing was changed; ` +
        `narrow the filter: by queue, kind, or time.`,
    );
  }
}

/** There is no bulk operation of this id. */
export class UnknownBulkError extends JobsError {
  static {
    named(this, "UnknownBulkError");
  }

  constructor(found: string) {
    super("BULK_UNKNOWN", `Expected the id of a bulk operation, found ${found}.`);
  }
}
