import type { INestApplicationContext } from "@nestjs/common";
import { JobInspector, JobQueue, JobResultNotKeptError, defineJob } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";

const circular: Record<string, unknown> = {};
circular.self = circular;

const throwing = {
  get field(): string {
    throw new Error("a getter throws");
  },
};

/** What handlers may return, and what is stored of it. */
const STORED: [string, () => unknown, unknown][] = [
  ["an object", () => ({ b: 1, a: [true, null, "x"] }), { b: 1, a: [true, null, "x"] }],
  ["a string", () => "text", "text"],
  ["false", () => false, false],
  ["zero", () => 0, 0],
  ["the largest number", () => Number.MAX_VALUE, Number.MAX_VALUE],
  ["the smallest number", () => Number.MIN_VALUE, Number.MIN_VALUE],
  ["an empty string", () => "", ""],
  ["quotes and backslashes", () => `"\\u0000' \\ $1 ${"}"}`, `"\\u0000' \\ $1 }`],
  ["a promise's value", async () => [1], [1]],
  ["undefined", () => undefined, null],
  ["null", () => null, null],
  ["an undefined property", () => ({ a: undefined, b: 1 }), { b: 1 }],
  [
    "a row with a Date",
    () => ({ id: 7, at: new Date(0) }),
    { id: 7, at: "1970-01-01T00:00:00.000Z" },
  ],
];

/** What is no JSON: the job has succeeded all the same, without a result. */
const NOT_STORED: [string, () => unknown][] = [
  ["a BigInt", () => 1n],
  ["a BigInt deep inside", () => ({ rows: [{ id: 1n }] })],
  ["a circular object", () => circular],
  ["a Map", () => new Map([["a", 1]])],
  ["a Set", () => new Set([1])],
  ["a Buffer", () => Buffer.from("x")],
  ["a function", () => () => 1],
  ["a symbol", () => Symbol("s")],
  ["NaN", () => Number.NaN],
  ["-Infinity", () => [Number.NEGATIVE_INFINITY]],
  ["a NUL byte", () => ({ text: "a\0b" })],
  ["a lone surrogate", () => "\ud800"],
  ["a NUL byte in a key", () => ({ "a\0": 1 })],
  ["a throwing getter", () => throwing],
  ["a toJSON that throws", () => ({ toJSON: () => Promise.reject(new Error("no")) })],
  ["a nesting of 10,000", () => JSON.parse(`${"[".repeat(10_000)}${"]".repeat(10_000)}`)],
];

const NOT_STORED_KEY = "nestjs-pg-jobs:result-not-stored";

const Store = defineJob<number>("result.store");
const Refuse = defineJob<number>("result.refuse");

describe("results", () => {
  let bench: Bench;
  let app: INestApplicationContext;
  let jobs: JobQueue;
  beforeAll(async () => {
    bench = await Bench.open();
    app = await bench.worker([
      handler(Store, (index) => STORED[index]![1]()),
      handler(Refuse, (index) => NOT_STORED[index]![1]()),
    ]);
    jobs = app.get(JobQueue);
  });
  afterAll(async () => await bench.close());

  it.each(STORED.map(([what, , stored], index) => ({ what, stored, index })))(
    "stores $what",
    async ({ stored, index }) => {
      const { id } = await jobs.enqueue(Store, index);
      expect((await reached(bench, id, "succeeded")).result).toEqual(stored);
      expect(await jobs.get(id)).toMatchObject({ result: stored, resultProblem: null });
    },
  );

  it.each(NOT_STORED.map(([what], index) => ({ what, index })))(
    "$what leaves no job unsettled: it has succeeded, without a result, and says why",
    async ({ index }) => {
      const { id } = await jobs.enqueue(Refuse, index);
      expect(await reached(bench, id, "succeeded")).toMatchObject({
        result: { [NOT_STORED_KEY]: expect.stringContaining("Expected JSON at result") },
        failures: 0,
      });
      const said = { result: null, resultProblem: expect.stringContaining("Expected JSON at") };
      expect(await jobs.get(id)).toMatchObject(said);
      expect(await app.get(JobInspector).get(id)).toMatchObject(said);
      const refusal = await jobs.result(id).catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(JobResultNotKeptError);
      expect(refusal).toMatchObject({
        code: "RESULT_NOT_KEPT",
        kind: "result.refuse",
        state: "succeeded",
        reason: expect.stringContaining("Expected JSON at result"),
      });
    },
  );

  it("longer than resultLimit leave the job succeeded, without a result", async () => {
    const Sized = defineJob<number>("result.sized");
    const made = await bench.worker(
      [handler(Sized, (n) => "x".repeat(n))],
      {},
      { resultLimit: 1_000 },
    );
    for (const [length, stored] of [
      [998, true],
      [999, false],
      [5_000, false],
    ] as const) {
      const { id } = await jobs.enqueue(Sized, length);
      await reached(bench, id, "succeeded");
      const told = await jobs.result(id).catch(String);
      const refusal = "its result was not stored. Expected a result of at most 1000 bytes";
      expect(told).toContain(stored ? "x".repeat(length) : refusal);
    }
    await made.close();
  });

  it("that job.transaction() cannot store are told of likewise, as is what looks like it", async () => {
    const made = await bench.worker([
      handler("transacts", async (_, job) => await job.transaction(async () => 1n)),
      handler("forges", () => ({ [NOT_STORED_KEY]: "a reason of mine" })),
    ]);
    for (const [kind, why] of [
      ["transacts", /a BigInt/],
      ["forges", /is reserved/],
    ] as const) {
      const { id } = await jobs.enqueue(kind);
      const { message } = (await jobs.result(id).catch((error: unknown) => error)) as Error;
      expect(message).toMatch(why);
    }
    await made.close();
  });

  it("settles what stands in one batch with them", async () => {
    const ids = await jobs.enqueueMany(Refuse, [...NOT_STORED.keys()]);
    const good = await jobs.enqueueMany(Store, [...STORED.keys()]);
    for (const { id } of [...ids, ...good]) await reached(bench, id, "succeeded");
    expect(await bench.sql("select 1 from jobs.job")).toEqual([]);
  });
});
