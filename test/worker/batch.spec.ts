import {
  type BatchItem,
  JobHandler,
  JobQueue,
  JobsModule,
  type QueueOptions,
  bury,
  defineJob,
  fixed,
  skip,
  snooze,
} from "nestjs-pg-jobs";
import { z } from "zod";
import { Events } from "../../libs/jobs/src/observe/events.js";
import { Gate, handler, reached, row } from "../support/handlers.js";
import { Bench, feature } from "../support/harness.js";
import { until } from "../support/until.js";
import type { HandlerOptions } from "nestjs-pg-jobs";

// Handlers of batches: what is called together, and that each job ends on its own.

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => await bench.close());

interface Row {
  n: number;
}
const Index = defineJob<Row>("index", { attempts: 2, backoff: fixed(50) });
const many = (count: number) => Array.from({ length: count }, (_, n) => ({ payload: { n } }));

function batches(
  body: (items: readonly BatchItem<Row>[]) => unknown,
  options: HandlerOptions = { batch: { size: 5 } },
  definition = Index,
) {
  class Handlers {
    run(items: readonly BatchItem<Row>[]): unknown {
      return body(items);
    }
  }
  JobHandler(definition, options)(
    Handlers.prototype,
    "run",
    Object.getOwnPropertyDescriptor(Handlers.prototype, "run")!,
  );
  return Handlers;
}

const all = async (state: string, count: number) =>
  await until(async () => ((await bench.states())[state] ?? 0) >= count, {
    what: `${count} are ${state}`,
  });

it("are full where many jobs wait, whatever the number of slots", async () => {
  for (const [size, wait] of [
    [10, "1m"],
    [4, "1m"],
  ] as const) {
    const sizes: number[] = [];
    const kind = defineJob<Row>(`index-${size}-${wait}`);
    const jobs = await bench.producer();
    await jobs.enqueueMany(kind, many(400));
    const before = (await bench.states()).succeeded ?? 0;
    const app = await bench.worker([
      batches(async (items) => void sizes.push(items.length), { batch: { size, wait } }, kind),
    ]);
    await all("succeeded", before + 400);
    expect([size, wait, sizes.length <= (1.25 * 400) / size]).toEqual([size, wait, true]);
    await app.close();
  }
});

it("without one that somebody else has by now", async () => {
  const calls: number[][] = [];
  const jobs = await bench.producer();
  const sent = await jobs.enqueueMany(Index, many(2));
  const app = await bench.worker(
    [
      batches((items) => void calls.push(items.map(({ payload: { n } }) => n)), {
        batch: { size: 3, wait: "1h" },
      }),
    ],
    { lease: "5s" },
  );
  const lost: string[] = [];
  app.get(Events).on(["lost"], ({ id }) => lost.push(id));
  const [first] = sent.map(({ id }) => id);
  await until(
    async () =>
      (await bench.sql("select from jobs.job where lease_until is not null")).length === 2,
    { what: "both are claimed" },
  );
  await bench.sql(
    "update jobs.job set attempt = attempt + 1, lease_until = now() + interval '1 h' where id = $1",
    [first!.split("-")[1]],
  );
  await until(() => lost.length > 0, { what: "it is told" });
  expect(lost).toEqual([first]);
  expect(calls).toEqual([]);
  await jobs.enqueueMany(Index, [{ payload: { n: 2 } }, { payload: { n: 3 } }]);
  await until(() => calls.length > 0, { what: "they are called" });
  expect(calls.map((call) => call.toSorted((a, b) => a - b))).toEqual([[1, 2, 3]]);
});

it("are called with what was claimed together, at most their size", async () => {
  const sizes: number[] = [];
  const jobs = await bench.producer();
  const sent = await jobs.enqueueMany(Index, many(12));
  await bench.worker([
    batches((items) => {
      sizes.push(items.length);
      return items.map(({ payload: { n } }) => ({ square: n * n }));
    }),
  ]);
  await all("succeeded", 12);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(12);
  expect(Math.max(...sizes)).toBe(5);
  expect(sizes.length).toBeLessThanOrEqual(4);
  expect((await row(bench, sent[7]!.id)).result).toEqual({ square: 49 });
});

it("wait for others, and no longer than is said", async () => {
  const calls: { size: number; at: number }[] = [];
  const app = await bench.worker([
    batches((items) => void calls.push({ size: items.length, at: performance.now() }), {
      batch: { size: 4, wait: "400ms" },
    }),
  ]);
  const jobs = app.get(JobQueue);
  const from = performance.now();
  for (let n = 0; n < 5; n++) await jobs.enqueue(Index, { n });
  await all("succeeded", 5);
  expect(calls.map(({ size }) => size)).toEqual([4, 1]);
  expect(calls[0]!.at - from).toBeLessThan(350);
  expect(calls[1]!.at - from).toBeGreaterThan(380);
});

describe("wait no longer when nothing more can join them:", () => {
  const WAIT = { wait: "15s" } as const;
  const SOON_MS = 5_000;
  /** How long the work takes, in ms. */
  const during = async (work: () => Promise<unknown>) => {
    const from = performance.now();
    await work();
    return performance.now() - from;
  };

  it("no slot of the queue is free", async () => {
    const Other = defineJob<Row>("other");
    const sizes: number[] = [];
    const count = (items: readonly BatchItem<Row>[]) => void sizes.push(items.length);
    const jobs = await bench.producer();
    await jobs.enqueueMany(Index, many(5));
    await jobs.enqueueMany(Other, many(5));
    const { id } = await jobs.enqueue("plain", {}, { priority: -1 });
    const start = async () => {
      await bench.worker(
        [
          batches(count, { batch: { size: 10, ...WAIT } }),
          batches(count, { batch: { size: 10, ...WAIT } }, Other),
          handler("plain", () => {}),
        ],
        { queues: { default: { concurrency: 10 } } },
      );
      await reached(bench, id, "succeeded");
    };
    expect(await during(start)).toBeLessThan(SOON_MS);
    expect(sizes).toEqual([5, 5]);
  });

  it("a job of another handler waits for a slot", async () => {
    const sizes: number[] = [];
    const gate = new Gate();
    const ran: string[] = [];
    const jobs = await bench.producer();
    await jobs.enqueue("long", {});
    await jobs.enqueueMany(Index, many(2));
    const plain = (kind: string) =>
      handler(kind, async () => {
        ran.push(kind);
        if (kind === "long") await gate.opened;
      });
    await bench.worker(
      [
        batches((items) => void sizes.push(items.length), { batch: { size: 3, ...WAIT } }),
        plain("long"),
        plain("short"),
      ],
      { queues: { default: { concurrency: 3 } } },
    );
    await until(
      async () =>
        (await bench.sql("select from jobs.job where lease_until is not null")).length === 3,
      { what: "all slots are taken" },
    );
    const start = async () => {
      await jobs.enqueue("short", {});
      await until(() => ran.includes("short"), { what: "it runs" });
    };
    expect(await during(start)).toBeLessThan(SOON_MS);
    expect(sizes).toEqual([2]);
    gate.open();
  });

  it.each<[string, HandlerOptions, QueueOptions]>([
    ["the limit of their kind", { limit: { max: 3 } }, {}],
    ["the limit of their queue", {}, { limit: [{ max: 3 }, { key: "n", max: 1 }] }],
  ])("%s is reached", async (_, options, queue) => {
    const sizes: number[] = [];
    const jobs = await bench.producer();
    await jobs.enqueueMany(Index, many(3));
    const start = async () => {
      const app = await bench.worker(
        [
          batches((items) => void sizes.push(items.length), {
            batch: { size: 10, ...WAIT },
            ...options,
          }),
        ],
        { queues: { default: { concurrency: 10, ...queue } } },
      );
      await all("succeeded", 3);
      await app.get(JobQueue).enqueueMany(Index, many(6));
      await all("succeeded", 9);
    };
    expect(await during(start)).toBeLessThan(SOON_MS);
    expect(sizes.reduce((sum, size) => sum + size)).toBe(9);
    expect(Math.max(...sizes)).toBe(3);
  });

  it("their limit is lower by now, and others have the rest of it", async () => {
    const sizes: number[] = [];
    const app = await bench.worker([
      batches((items) => void sizes.push(items.length), {
        batch: { size: 10, ...WAIT },
        limit: { max: 5 },
      }),
    ]);
    const jobs = app.get(JobQueue);
    await jobs.enqueueMany(Index, many(5));
    await all("succeeded", 5);
    await jobs.queues.limit("default", { kind: "index", limit: { max: 2 } });
    const more = async () => {
      await jobs.enqueueMany(Index, many(4));
      await all("succeeded", 9);
    };
    expect(await during(more)).toBeLessThan(SOON_MS);
    expect(sizes).toEqual([5, 2, 2]);
  });
});

it("each of their jobs ends on its own", async () => {
  const seen: number[] = [];
  const jobs = await bench.producer();
  const sent = await jobs.enqueueMany(Index, many(5));
  await bench.worker([
    batches((items) =>
      items.map(({ payload: { n }, job }) => {
        seen.push(n);
        if (job.attempt > 1) return "second";
        return [
          { ok: true },
          new Error("not this one"),
          skip("no need"),
          bury("never"),
          snooze(50),
        ][n];
      }),
    ),
  ]);
  await reached(bench, sent[0]!.id, "succeeded");
  expect(await reached(bench, sent[1]!.id, "succeeded", { attempt: 2 })).toMatchObject({
    failures: 1,
    result: "second",
  });
  await reached(bench, sent[2]!.id, "skipped");
  expect(await reached(bench, sent[3]!.id, "dead")).toMatchObject({ last_error: "never" });
  expect(await reached(bench, sent[4]!.id, "succeeded", { attempt: 2 })).toMatchObject({
    failures: 0,
  });
  expect(seen.toSorted((a, b) => a - b)).toEqual([0, 1, 1, 2, 3, 4, 4]);
});

it("may answer with a promise for each", async () => {
  const jobs = await bench.producer();
  const sent = await jobs.enqueueMany(Index, many(3), { attempts: 1 });
  await bench.worker([
    batches((items) =>
      items.map(async ({ payload: { n } }) => {
        await Promise.resolve();
        if (n === 1) throw new Error("not this one");
        return n;
      }),
    ),
  ]);
  expect(await reached(bench, sent[0]!.id, "succeeded")).toMatchObject({ result: 0 });
  expect(await reached(bench, sent[1]!.id, "dead")).toMatchObject({ last_error: "not this one" });
  expect(await reached(bench, sent[2]!.id, "succeeded")).toMatchObject({ result: 2 });
});

it("what they throw fails all of them, each by its own attempts", async () => {
  const jobs = await bench.producer();
  const [first] = await jobs.enqueueMany(Index, many(2), { attempts: 1 });
  const [second] = await jobs.enqueueMany(Index, many(2));
  await bench.worker([batches(() => Promise.reject(new Error("the index is away")))]);
  expect(await reached(bench, first!.id, "dead")).toMatchObject({ failures: 1 });
  expect(await reached(bench, second!.id, "dead")).toMatchObject({
    failures: 2,
    last_error: "the index is away",
  });
});

it.each([
  [
    "too few",
    () => [1],
    /list with an outcome for each of its 3 jobs, in order, found a list of 1$/,
  ],
  ["something else", () => "done", /found "done"/],
])("an answer of %s fails all of them, and says why", async (_, body, found) => {
  const jobs = await bench.producer();
  const sent = await jobs.enqueueMany(Index, many(3), { attempts: 1 });
  await bench.worker([batches(body)]);
  for (const { id } of sent) {
    const { last_error } = await reached(bench, id, "dead");
    expect(last_error).toMatch(found);
  }
});

it("a payload that does not fit fails its own job only", async () => {
  const Loose = defineJob("strict");
  const Strict = defineJob<typeof schema, unknown>("strict", { payload: schema, attempts: 1 });
  const sizes: number[] = [];
  const jobs = await bench.producer();
  const sent = await jobs.enqueueMany(Loose, [
    { payload: { n: 1 } },
    { payload: { n: "x" } },
    { payload: { n: 3 } },
  ]);
  await bench.worker([
    batches((items) => void sizes.push(items.length), undefined, Strict as never),
  ]);
  await reached(bench, sent[0]!.id, "succeeded");
  await reached(bench, sent[1]!.id, "dead");
  await reached(bench, sent[2]!.id, "succeeded");
  expect(sizes).toEqual([2]);
});
const schema = z.object({ n: z.number() });

it("one that is cancelled while it waits is left out; one that runs hears of it", async () => {
  const gate = new Gate();
  const called: number[][] = [];
  const reasons: unknown[] = [];
  const app = await bench.worker([
    batches(
      async (items) => {
        called.push(items.map(({ payload: { n } }) => n));
        items[0]!.job.signal.addEventListener("abort", () => {
          reasons.push((items[0]!.job.signal.reason as Error).name);
          gate.open();
        });
        await gate.opened;
      },
      { batch: { size: 3, wait: "2s" }, concurrency: 3 },
    ),
  ]);
  const jobs = app.get(JobQueue);
  const sent = await jobs.enqueueMany(Index, many(2));
  await until(async () => (await bench.states()).running === 2, { what: "both are claimed" });
  await jobs.cancel(sent[0]!.id);
  await reached(bench, sent[0]!.id, "cancelled");
  // Its slot is free: another one has room beside the one that waits.
  const [third, fourth] = await jobs.enqueueMany(Index, [
    { payload: { n: 2 } },
    { payload: { n: 3 } },
  ]);
  await until(() => called.length === 1, { what: "the others are called" });
  expect(called).toEqual([[1, 2, 3]]);
  expect([third, fourth]).toHaveLength(2);
  await jobs.cancel(sent[1]!.id);
  await until(() => reasons.length === 1, { what: "its signal fires" });
  expect(reasons).toEqual(["JobCancelledError"]);
});

it("those that still wait when the worker stops go back, without an attempt being spent", async () => {
  let called = 0;
  const app = await bench.worker([
    batches(() => void called++, { batch: { size: 9, wait: "1m" } }),
  ]);
  const jobs = app.get(JobQueue);
  const [sent] = await jobs.enqueueMany(Index, many(3));
  await until(async () => (await bench.states()).running === 3, { what: "they are claimed" });
  const from = performance.now();
  await app.close();
  expect(performance.now() - from).toBeLessThan(3_000);
  expect(called).toBe(0);
  expect(await bench.states()).toEqual({ queued: 3 });
  expect(await row(bench, sent!.id)).toMatchObject({ failures: 0 });
});

it("those that wait go back when their queue is paused, without an attempt being spent", async () => {
  let called = 0;
  const app = await bench.worker([
    batches(() => void called++, { batch: { size: 3, wait: "1m" } }),
  ]);
  const jobs = app.get(JobQueue);
  const [sent] = await jobs.enqueueMany(Index, many(2));
  await until(async () => (await bench.states()).running === 2, { what: "they are claimed" });
  await jobs.queues.pause("default");
  await until(async () => (await bench.states()).queued === 2, { what: "they are given back" });
  expect(await row(bench, sent!.id)).toMatchObject({ failures: 0 });
  await jobs.enqueue(Index, { n: 2 });
  await jobs.queues.resume("default");
  await all("succeeded", 3);
  expect(called).toBe(1);
});

it("an outcome that takes long keeps no other one", async () => {
  const gate = new Gate();
  const jobs = await bench.producer();
  const sent = await jobs.enqueueMany(Index, many(3));
  await bench.worker([
    batches((items) =>
      items.map(async ({ payload: { n } }) => {
        if (n === 1) await gate.opened;
        return n;
      }),
    ),
  ]);
  await all("succeeded", 2);
  expect(await bench.state(sent[1]!.id)).toBe("running");
  gate.open();
  expect(await reached(bench, sent[1]!.id, "succeeded")).toMatchObject({ result: 1 });
});

it("the list is theirs: who empties it is called once, and each job ends", async () => {
  let called = 0;
  const jobs = await bench.producer();
  await jobs.enqueueMany(Index, many(3));
  await bench.worker([
    batches((items) => {
      called++;
      (items as BatchItem<Row>[]).splice(0);
    }),
  ]);
  await all("succeeded", 3);
  expect(called).toBe(1);
});

it("one that has killed its process twice is called alone, and waits for nobody", async () => {
  const called: number[][] = [];
  const app = await bench.worker([
    batches((items) => void called.push(items.map(({ payload: { n } }) => n)), {
      batch: { size: 3, wait: "1m" },
    }),
  ]);
  const jobs = app.get(JobQueue);
  const { id } = await jobs.enqueue(Index, { n: 7 }, { delay: "1h" });
  await bench.sql(
    "update jobs.job set lane = lane + 20000, crashes = 2, run_at = now() where id = $1",
    [id.split("-")[1]],
  );
  await reached(bench, id, "succeeded");
  expect(called).toEqual([[7]]);
});

it("larger than what runs at once is refused at boot", async () => {
  await expect(bench.worker([batches(() => {}, { batch: { size: 11 } })])).rejects.toThrow(
    /batch\.size: expected at most as many as run at once, found 11 of 10; raise the concurrency of queue "default"/,
  );
  await expect(
    bench.worker([batches(() => {}, { batch: { size: 5 }, concurrency: 4 })]),
  ).rejects.toThrow(/found 5 of 4; raise its concurrency/);
  for (const batch of [
    {},
    { size: 0 },
    { size: 1.5 },
    { size: 2, wait: -1 },
    { size: 2, waits: 1 },
    3,
  ])
    await expect(bench.worker([batches(() => {}, { batch } as never)])).rejects.toThrow(/batch/);
  await bench.app([
    bench.root(),
    JobsModule.forWorker({
      imports: [feature([batches(() => {}, { batch: { size: 100 } })])],
      queues: { default: { concurrency: 100 } },
    }),
  ]);
});
