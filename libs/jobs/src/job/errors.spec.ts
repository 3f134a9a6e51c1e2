import * as bulk from "./bulk-errors.js";
import * as errors from "./errors.js";
import * as results from "./result-errors.js";

const job = { id: "1-1", kind: "k", state: "running" } as const;

const all: errors.JobsError[] = [
  new errors.OptionsError("options", ["a: bad", "b: worse"]),
  new errors.NotJsonError("payload.a", "a Date"),
  new errors.PayloadTooLargeError("k", 10, 5),
  new errors.PayloadInvalidError("k", [{ path: "payload.id", message: "received 'secret'" }]),
  new errors.PayloadCheckFailedError("k", { cause: new Error("secret") }),
  new errors.BadJobIdError('"x"'),
  new errors.BadCursorError('"x"'),
  new errors.SchemaNotReadyError("jobs", null, 3),
  new errors.DatabaseUnavailableError("none", "Repeat the call.", {
    cause: new Error("ECONNREFUSED"),
  }),
  new errors.DatabaseTooSlowError("canceling statement due to statement timeout"),
  new errors.SearchesBusyError(2, 20),
  new errors.DatabaseRefusedError("jobs", "permission denied for table job"),
  new errors.NotInEncodingError('this job of kind "k"', "LATIN1", "\u{1F600}", " in its key"),
  new errors.EnqueueOutcomeUnknownError(["1-1", "1-2", "1-3", "1-4"]),
  new errors.KeyLockedError("k"),
  new errors.JobLockedError("1-1"),
  new errors.LaneLockedError("q", "k", 5),
  new errors.UnknownQueueError("mial", "mail"),
  new errors.UnknownKindError("mail", "snd", "send"),
  new errors.NoWorkerError("mail", "send"),
  new errors.UnknownScheduleError('"nightly"', "nightly-report"),
  new errors.UnknownSubscriptionError("order.placed", "bil", {
    event: "order.placed",
    name: "bill",
  }),
  new errors.ScheduleDeclaredError("nightly", "shop"),
  new errors.LanesUsedUpError(),
  new errors.LeaseLostError("1-1", 2),
  new errors.TransactionUsedError("1-1"),
  new errors.TransactionFailedError("1-1"),
  new errors.TransactionEndedError("1-1"),
  new errors.TransactionOverError("1-1"),
  new errors.JobTimeoutError(500),
  new errors.JobCancelledError("1-1"),
  new errors.ShutdownError(),
  new results.JobResultDeadError(job, { name: "Error", message: "no" }),
  new results.JobResultCancelledError(job),
  new results.JobResultSkippedError(job, "nothing to do"),
  new results.JobResultUnknownError("1-1"),
  new results.JobResultNotKeptError(job),
  new results.JobResultTimeoutError(job, 500),
  new results.JobResultClosedError(job),
  new bulk.BulkCountError(3, 4),
  new bulk.BulkTooLargeError(100, 101),
  new bulk.UnknownBulkError('"x"'),
  new errors.FollowClosedError("1-1"),
];

describe("errors", () => {
  it("have one class for each code, named in the stack", () => {
    expect(all.map((error) => error.code)).toEqual(Object.keys(errors.ERROR_CODES));
    for (const error of all) {
      expect(error.name).toBe(error.constructor.name);
      expect(error.stack?.startsWith(`${error.name}: `)).toBe(true);
      expect("index" in error).toBe(false);
    }
  });

  it("list every problem", () => {
    expect(all[0]!.message).toBe("Invalid options:\n  - a: bad\n  - b: worse");
  });

  it("keep what schemas say out of messages and logs", () => {
    const error = all[3] as errors.PayloadInvalidError;
    expect(error.message).toContain("payload.id");
    expect(error.message + JSON.stringify(error)).not.toContain("secret");
    expect(error.issues[0]!.message).toContain("secret");
  });

  it("say which item of enqueueMany raised them", () => {
    expect(errors.atIndex(all[2]!, 0)).toMatchObject({ index: 0, code: "PAYLOAD_TOO_LARGE" });
  });
});
