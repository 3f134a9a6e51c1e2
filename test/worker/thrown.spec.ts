import { JobInspector, JobQueue, defineJob, fixed } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";

class MailboxGone extends Error {}

const circular = new Error("circular");
circular.cause = new Error("beneath", { cause: circular });

class Secretive extends Error {
  override get message(): string {
    throw new Error("no message");
  }
  override get cause(): unknown {
    throw new Error("no cause");
  }
}

const hostile = new Proxy(new Error("hostile"), {
  get() {
    throw new Error("no");
  },
  getPrototypeOf() {
    throw new Error("no");
  },
});

// oxlint-disable-next-line no-thenable -- that is the point
const thenable = Object.defineProperty({}, "then", {
  get() {
    throw new Error("then throws");
  },
});

/** What handlers may do to end badly, and what is to be read of it. */
const CASES: { what: string; run: () => unknown; error: object }[] = [
  {
    what: "an error",
    run: () => {
      throw new TypeError("wrong type");
    },
    error: {
      name: "TypeError",
      message: "wrong type",
      stack: expect.stringMatching(/TypeError: wrong type\n +at .*thrown\.spec\.ts/),
    },
  },
  {
    what: "an error whose stack says nothing of how we came to it",
    run: () => {
      throw new Error("at once");
    },
    error: { stack: expect.stringMatching(/^(?!.*\b(slots|worker|claimer|session)\.ts)/s) },
  },
  {
    what: "a rejection with an error of a class of its own, a code and a cause",
    run: async () => {
      const cause = new RangeError("too far", { cause: "a word" });
      throw Object.assign(new MailboxGone("gone", { cause }), { code: "E_GONE" });
    },
    error: {
      name: "MailboxGone",
      message: "gone",
      code: "E_GONE",
      cause: {
        name: "RangeError",
        message: "too far",
        cause: { name: "NonError", message: "a word" },
      },
    },
  },
  {
    what: "an AggregateError",
    run: () => {
      throw new AggregateError([new Error("one"), new Error("two")], "both");
    },
    error: { name: "AggregateError", errors: [{ message: "one" }, { message: "two" }] },
  },
  { what: "null", run: () => rejects(null), error: { name: "NonError", message: "null" } },
  {
    what: "undefined",
    run: () => rejects(undefined),
    error: { name: "NonError", message: "undefined" },
  },
  { what: "a string", run: () => rejects("text"), error: { name: "NonError", message: "text" } },
  { what: "a number", run: () => rejects(42), error: { message: "42" } },
  { what: "a symbol", run: () => rejects(Symbol("s")), error: { message: "Symbol(s)" } },
  { what: "a BigInt", run: () => rejects(1n), error: { message: "1n" } },
  { what: "an object", run: () => rejects({ status: 500 }), error: { message: "{ status: 500 }" } },
  {
    what: "a circular cause",
    run: () => rejects(circular),
    error: { message: "circular", cause: { message: "beneath" } },
  },
  {
    what: "NUL bytes and lone surrogates",
    run: () => rejects(new Error("a\0b\ud800c")),
    error: { message: "a\uFFFDb\uFFFDc" },
  },
  {
    what: "a code with NUL bytes",
    run: () => rejects(Object.assign(new Error("x"), { code: "\0" })),
    error: { code: "\uFFFD" },
  },
  {
    what: "throwing getters",
    run: () => rejects(new Secretive()),
    error: { name: expect.any(String) },
  },
  { what: "a hostile proxy", run: () => rejects(hostile), error: { name: expect.any(String) } },
  { what: "a throwing then", run: () => thenable, error: { message: "then throws" } },
  {
    what: "a message of 5 MB",
    run: () => rejects(new Error("x".repeat(5_000_000))),
    error: { message: expect.stringMatching(/^x{9999}…$/) },
  },
];

// oxlint-disable-next-line prefer-promise-reject-errors -- that is the point
const rejects = (reason: unknown) => Promise.reject(reason);

const Throw = defineJob<number>("throw", { attempts: 2, backoff: fixed("1ms", { jitter: 0 }) });

describe("what handlers throw", () => {
  let bench: Bench;
  let jobs: JobQueue;
  let inspector: JobInspector;
  beforeAll(async () => {
    bench = await Bench.open();
    const app = await bench.worker([handler(Throw, (index) => CASES[index]!.run())]);
    jobs = app.get(JobQueue);
    inspector = app.get(JobInspector);
  });
  afterAll(async () => await bench.close());

  it.each(CASES.map((one, index) => ({ ...one, index })))(
    "$what: retried, then dead, and each attempt can be read",
    async ({ error, index }) => {
      const before = Date.now();
      const { id } = await jobs.enqueue(Throw, index);
      const dead = await reached(bench, id, "dead");
      expect(dead).toMatchObject({ attempt: 2, failures: 2, payload: index });
      const attempts = await inspector.attempts(id);
      expect(attempts).toMatchObject([
        { attempt: 1, error },
        { attempt: 2, error },
      ]);
      expect(dead.last_error).toBe(attempts[1]!.error.message);
      const times = attempts.flatMap(({ startedAt, failedAt }) =>
        [startedAt!, failedAt].map((time) => Date.parse(time)),
      );
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(times[0]).toBeGreaterThan(before - 60_000);
      expect(times[3]).toBeLessThan(Date.now() + 60_000);
    },
  );

  it("all at once, in the same batches", async () => {
    const all = await jobs.enqueueMany(Throw, [...CASES.keys()]);
    for (const { id } of all)
      expect(await reached(bench, id, "dead")).toMatchObject({ failures: 2 });
  });
});
