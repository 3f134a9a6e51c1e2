import {
  type Definition,
  type EnqueueOptions,
  type JobQueue,
  JobsError,
  LanesUsedUpError,
  NotJsonError,
  OptionsError,
  PayloadCheckFailedError,
  PayloadInvalidError,
  PayloadTooLargeError,
  type StandardSchemaV1,
  defineJob,
} from "nestjs-pg-jobs";
import { z } from "zod";
import { Bench } from "../support/harness.js";

// What cannot be a job is refused where it is enqueued, told precisely, and leaves nothing behind.

let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer({ payloadLimit: 2_000 });
  await jobs.enqueue("work", {});
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.job")));
afterEach(async () => {
  const left = await bench.states();
  if (Object.keys(left).length > 0) throw new Error(`jobs were left: ${JSON.stringify(left)}`);
});

const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
const sparse: unknown[] = [1];
sparse[2] = 3;
const circle: Record<string, unknown> = {};
circle.self = { circle };

describe("a payload that JSON cannot carry", () => {
  it.each<[string, unknown]>([
    ["payload.a[1]", { a: [1, NaN] }],
    ["payload.n", { n: Infinity }],
    ["payload.n", { n: -Infinity }],
    ["payload.n", { n: 1n }],
    ["payload.at", { at: new Date() }],
    ["payload.m", { m: new Map([[1, 2]]) }],
    ["payload.s", { s: new Set([1]) }],
    ["payload.b", { b: Buffer.from("x") }],
    ["payload.f", { f: () => 1 }],
    ["payload.y", { y: Symbol("y") }],
    ["payload.list[1]", { list: sparse }],
    ["payload.list[0]", { list: [undefined] }],
    [`payload${"[0]".repeat(100)}`, deep(101)],
    ["payload.self", circle],
    ["payload.text", { text: "a\0b" }],
    ["payload.text", { text: "\ud800" }],
    ['payload["\\ud800"]', { "\ud800": 1 }],
    ["payload", NaN],
    ["payload", () => 1],
  ])("is refused at %s, through every door", async (path, payload) => {
    const client = await bench.client();
    await client.query("begin");
    const doors = [
      jobs.enqueue("work", payload),
      jobs.enqueueMany("work", [{}, payload]),
      jobs.in(client).enqueue("work", payload),
      jobs.in(client).enqueueMany("work", [{}, { payload, priority: 1 }]),
    ];
    const errors = await Promise.all(
      doors.map(async (call) => await call.catch((e: unknown) => e)),
    );
    await client.query("commit");
    client.release();
    for (const [index, error] of errors.entries()) {
      expect(error).toBeInstanceOf(NotJsonError);
      const found = (error as NotJsonError).path;
      expect(found.startsWith(path) ? path : found).toBe(path);
      expect((error as NotJsonError).index).toBe(index % 2 ? 1 : undefined);
    }
  });
});

describe("a payload that is too large", () => {
  it("is refused by its bytes, not by its characters", async () => {
    const fits = "x".repeat(1_998);
    await jobs.enqueue("work", fits);
    await bench.sql("truncate jobs.job");
    for (const payload of [`${fits}x`, "é".repeat(1_000), "😀".repeat(500), { a: fits }]) {
      const refused = jobs.enqueue("work", payload);
      await expect(refused).rejects.toThrow(PayloadTooLargeError);
      await expect(refused).rejects.toMatchObject({
        limit: 2_000,
        bytes: Buffer.byteLength(JSON.stringify(payload)),
      });
      await expect(jobs.enqueueMany("work", [1, payload])).rejects.toMatchObject({ index: 1 });
    }
  });
});

describe("a payload that does not fit its schema", () => {
  it("is refused with the path, and without its value", async () => {
    const schema = z.object({ user: z.object({ id: z.uuid() }) });
    const Typed = defineJob("typed", { payload: schema });
    const refused = jobs.enqueue(Typed, { user: { id: "secret-value" } });
    await expect(refused).rejects.toThrow(PayloadInvalidError);
    await expect(refused).rejects.toThrow(/payload\.user\.id/);
    await expect(refused).rejects.not.toThrow(/secret-value/);
    await expect(jobs.enqueue(Typed)).rejects.toThrow(PayloadInvalidError);
  });
});

describe("a schema that fails", () => {
  const own = new Error("the schema's own fault");
  const failing = (validate: () => unknown) => {
    const standard = { version: 1, vendor: "spec", validate };
    return defineJob("failing", { payload: { "~standard": standard } as StandardSchemaV1 });
  };

  it.each<[string, () => unknown, unknown]>([
    [
      "throws",
      () => {
        throw own;
      },
      own,
    ],
    ["rejects", () => Promise.reject(own), own],
    ["answers null", () => null, expect.any(TypeError)],
    ["answers undefined", () => undefined, expect.any(TypeError)],
    ["answers a promise of null", () => Promise.resolve(null), expect.any(TypeError)],
    ["answers issues that are none", () => ({ issues: "bad" }), expect.any(TypeError)],
  ])("and %s is told with its kind, and its error as the cause", async (_, validate, cause) => {
    const Failing = failing(validate);
    for (const call of [jobs.enqueue(Failing, {}), jobs.enqueueMany(Failing, [{ payload: {} }])]) {
      const error: unknown = await call.catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(PayloadCheckFailedError);
      expect(error).toMatchObject({ code: "PAYLOAD_CHECK_FAILED", cause });
      expect((error as Error).message).toContain('"failing"');
    }
  });
});

describe("an item of enqueueMany with a payload", () => {
  const Own = defineJob("own", {
    payload: z.object({ payload: z.string(), to: z.string().optional() }),
  });
  const Lenient = defineJob("lenient", { payload: z.object({ n: z.number().optional() }) });
  const stored = async () =>
    await bench.sql("select payload, priority from jobs.job_status order by number");
  const emptied = async () => void (await bench.sql("truncate jobs.job"));

  it.each<[string, Definition | string, object]>([
    ["without a schema", "work", { payload: { n: 1 } }],
    [
      "with one",
      defineJob("strict", { payload: z.object({ n: z.number() }) }),
      { payload: { n: 1 } },
    ],
    ["with one that takes anything", Lenient, { payload: { n: 1 } }],
    ["with one that takes anything but this", Lenient, { payload: { n: "text" } }],
    ["with one that has a payload too", Own, { payload: { payload: "x" } }],
  ])("and a misspelt option is told, %s", async (_, definition, item) => {
    const client = await bench.client();
    await client.query("begin");
    try {
      for (const queue of [jobs, jobs.in(client)]) {
        const refused = queue.enqueueMany(definition, [{ ...item, prority: 10 }]);
        await expect(refused).rejects.toThrow(OptionsError);
        await expect(refused).rejects.toThrow(/prority: unknown option, did you mean priority\?/);
        await expect(refused).rejects.toThrow(/send \{ payload: item \}/);
        await expect(refused).rejects.toMatchObject({ index: 0 });
      }
    } finally {
      await client.query("rollback");
      client.release();
    }
  });

  it("is a payload as it stands when the schema has no other reading of it", async () => {
    await jobs.enqueueMany(Own, [
      { payload: "x" },
      { payload: "x", to: "y" },
      { payload: { payload: "x" }, priority: 3 },
      { payload: { payload: "x", to: "y" } },
    ]);
    expect(await stored()).toEqual([
      { payload: { payload: "x" }, priority: 0 },
      { payload: { payload: "x", to: "y" }, priority: 0 },
      { payload: { payload: "x" }, priority: 3 },
      { payload: { payload: "x", to: "y" }, priority: 0 },
    ]);
    await emptied();
  });

  it("that is no option can be sent within a payload", async () => {
    const item = { payload: 1, userId: 5 };
    await expect(jobs.enqueueMany("work", [item])).rejects.toThrow(OptionsError);
    await jobs.enqueueMany("work", [{ payload: item }]);
    expect(await stored()).toEqual([{ payload: item, priority: 0 }]);
    await emptied();
  });
});

describe("an option that is wrong", () => {
  it.each<[RegExp, unknown]>([
    [/did you mean priority/, { prioriy: 1 }],
    [/priority/, { priority: 101 }],
    [/priority/, { priority: "high" }],
    [/delay, at/, { delay: 1, at: new Date() }],
    [/delay/, { delay: "soon" }],
    [/attempts/, { attempts: 0 }],
    [/timeout/, { timeout: -1 }],
    [/queue/, { queue: "" }],
    [/queue/, { queue: "q".repeat(65) }],
    [/queue/, { queue: "a\nb" }],
    [/key/, { key: "" }],
    [/key/, { key: "a\0" }],
    [/key/, { key: "k".repeat(513) }],
    [/window: expected a key/, { window: "1h" }],
    [/onConflict: expected a key/, { onConflict: "keep" }],
    [/window/, { key: "k", window: 0 }],
    [/window/, { key: "k", window: "-1h" }],
    [/window.*at most 10 years/, { key: "k", window: "11000d" }],
    [/did you mean 'replace-time'/, { key: "k", onConflict: "replace-tim" }],
    [/did you mean window/, { key: "k", windw: "1h" }],
    [/an object/, "now"],
  ])("is told as %s, through every door", async (message, options) => {
    const client = await bench.client();
    await client.query("begin");
    for (const queue of [jobs, jobs.in(client)]) {
      const calls = [
        queue.enqueue("work", {}, options as EnqueueOptions),
        queue.enqueueMany("work", [{}], options as EnqueueOptions),
      ];
      for (const call of calls) {
        await expect(call).rejects.toThrow(OptionsError);
        await expect(call).rejects.toThrow(message);
      }
    }
    await client.query("rollback");
    client.release();
  });

  it.each([[""], ["k".repeat(65)], ["a\tb"], ["a\0"], ["\ud800"], [null], [7], [{}]])(
    "as the kind %p is told",
    async (kind) => {
      await expect(jobs.enqueue(kind as string, {})).rejects.toThrow(OptionsError);
      await expect(jobs.enqueueMany(kind as string, [])).rejects.toThrow(OptionsError);
    },
  );

  it("as the list is told", async () => {
    for (const list of [undefined, null, {}, "abc", 3, new Set([1])])
      await expect(jobs.enqueueMany("work", list as unknown[])).rejects.toThrow(OptionsError);
    await expect(jobs.enqueueMany("work", [])).resolves.toEqual([]);
  });

  it.each(["", "1", "x-1", "1-1; drop", "1-9223372036854775808", "2147483648-1", null, 5, {}])(
    "as the id %p is told",
    async (id) => {
      for (const call of [jobs.get(id as string), jobs.requeue(id as string)]) {
        await expect(call).rejects.toThrow(JobsError);
        await expect(call).rejects.toMatchObject({ code: "JOB_ID_INVALID" });
      }
    },
  );
});

it("a list with a hole is refused, and nothing of it is created", async () => {
  const items: unknown[] = [{ n: 0 }];
  items[2] = { n: 2 };
  await expect(jobs.enqueueMany("work", items)).rejects.toMatchObject({
    code: "OPTIONS_INVALID",
    index: 1,
    message: expect.stringContaining("items[1]: expected a payload, found a hole in the array"),
  });
  expect(await bench.sql("select 1 from jobs.job")).toEqual([]);
});

describe("a queue whose lanes are used up", () => {
  it("refuses another kind with a typed error, and goes on with those it knows", async () => {
    await jobs.enqueue("known", {}, { queue: "full" });
    await bench.sql(`insert into jobs.lane (queue_id, id, kind, priority)
      select q.id, n, 'kind ' || n, 0 from jobs.queue q, generate_series(1, 9999) n where q.name = 'full'`);
    const many = [{}, { payload: {}, queue: "full" }];
    for (const [call, index] of [
      [() => jobs.enqueue("one too many", {}, { queue: "full" }), undefined],
      [() => jobs.enqueueMany("one too many", many, { queue: "elsewhere" }), 1],
    ] as const) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(LanesUsedUpError);
      expect(error).toMatchObject({ code: "LANES_USED_UP" });
      expect((error as { index?: number }).index).toBe(index);
    }
    await jobs.enqueue("known", {}, { queue: "full" });
    await bench.sql("truncate jobs.job");
  });
});
