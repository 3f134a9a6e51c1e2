import { JobQueue, bury, skip, snooze } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler } from "../support/handlers.js";
import { until } from "../support/until.js";

// A person has what is due worked off now, by the workers that are there, and hears what became of it.

let bench: Bench;
let jobs: JobQueue;
beforeEach(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
});
afterEach(async () => await bench.close());

const none = {
  succeeded: 0,
  skipped: 0,
  cancelled: 0,
  dead: 0,
  retried: 0,
  gone: 0,
  running: 0,
  waiting: 0,
};

it("answers what became of each", async () => {
  const handlers = [
    handler("works", () => "done"),
    handler("skips", () => skip("no use")),
    handler("dies", () => bury("no use")),
    handler("fails", () => Promise.reject(new Error("boom"))),
    handler("snoozes", () => snooze("1h")),
  ];
  // Its poll is far away: without being told it would find them by chance only.
  const app = await bench.worker(handlers, { poll: "60s" }, { notify: true });
  await until(async () => (await bench.sql("select 1 from jobs.worker")).length, {
    what: "it works",
  });
  await app.get(JobQueue).queues.pause("default");
  for (const kind of ["works", "works", "skips", "dies", "fails", "snoozes"])
    await jobs.enqueue(kind);
  await jobs.enqueue("works", {}, { delay: "1h" });
  expect(await jobs.queues.process("default", { timeout: "300ms" })).toEqual({ jobs: 0, ...none });
  await jobs.queues.resume("default");
  const report = await jobs.queues.process("default");
  expect(report.running + report.waiting).toBe(0);
  await until(
    async () => {
      const { queued = 0, running = 0, ...over } = await bench.states();
      return running === 0 && queued === 3 && over;
    },
    { what: "all is over" },
  );
  expect(await bench.states()).toEqual({ succeeded: 2, skipped: 1, dead: 1, queued: 3 });
});

it("counts them one by one, those of a kind, those that come first", async () => {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  const handlers = [
    handler("waits", () => opened),
    handler("fails", async () => {
      await opened;
      throw new Error("boom");
    }),
  ];
  await bench.worker(handlers, { queues: { default: { concurrency: 1, prefetch: 0 } } });
  await jobs.enqueue("waits", { first: true });
  await until(async () => (await bench.states()).running === 1, { what: "its slot is taken" });
  for (let n = 0; n < 3; n++) await jobs.enqueue("waits");
  for (let n = 0; n < 2; n++) await jobs.enqueue("fails");
  const waiting = await jobs.queues.process("default", { kind: "waits", timeout: "300ms" });
  expect(waiting).toEqual({ jobs: 3, ...none, waiting: 3 });
  const two = await jobs.queues.process("default", { limit: 2, timeout: "300ms" });
  expect(two).toEqual({ jobs: 2, ...none, waiting: 2 });
  const all = jobs.queues.process("default");
  open();
  expect(await all).toEqual({ jobs: 5, ...none, succeeded: 3, retried: 2 });
});

it("counts what waits for its key, and asks nobody whose signal has aborted", async () => {
  const handlers = [handler("keyed", () => new Promise((resolve) => setTimeout(resolve, 50)))];
  const app = await bench.worker(handlers);
  await jobs.enqueue("keyed", { t: "a" });
  await until(async () => (await bench.states()).succeeded === 1, { what: "it is over" });
  await app.get(JobQueue).queues.limit("default", { limit: { key: "t", max: 1 } });
  await jobs.enqueueMany(
    "keyed",
    Array.from({ length: 6 }, () => ({ t: "a" })),
  );
  await until(async () => (await bench.sql("select 1 from jobs.parked")).length >= 4, {
    what: "they wait for their key",
  });
  const report = await jobs.queues.process("default");
  expect(report.jobs).toBeGreaterThanOrEqual(4);
  expect(report).toMatchObject({ succeeded: report.jobs, waiting: 0 });
  const signal = AbortSignal.abort(new Error("left"));
  await expect(jobs.queues.process("default", { signal })).rejects.toThrow("left");
});

it("says so when nobody could start one, now or of that kind", async () => {
  await jobs.enqueue("works");
  await expect(jobs.queues.process("default")).rejects.toMatchObject({ code: "NO_WORKER" });
  await bench.worker([handler("other", () => "done")]);
  await until(async () => (await bench.sql("select 1 from jobs.worker")).length, {
    what: "it works",
  });
  expect(await jobs.queues.process("default")).toEqual({ jobs: 0, ...none });
  await expect(jobs.queues.process("default", { kind: "works" })).rejects.toMatchObject({
    code: "NO_WORKER",
    message: expect.stringContaining('queue "default", kind "works"'),
  });
  expect(await bench.states()).toEqual({ queued: 1 });
});

it("ends with its signal, and the jobs go on", async () => {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  await bench.worker([handler("waits", () => opened)], {
    queues: { default: { concurrency: 1, prefetch: 0 } },
  });
  await jobs.enqueueMany("waits", [{}, {}]);
  await until(async () => (await bench.states()).running === 1, { what: "its slot is taken" });
  const leaving = new AbortController();
  const report = jobs.queues
    .process("default", { signal: leaving.signal })
    .catch((why: unknown) => why);
  leaving.abort(new Error("I have left"));
  expect(await report).toMatchObject({ message: "I have left" });
  open();
  await until(async () => (await bench.states()).succeeded === 2, { what: "they go on" });
});

it.each<[unknown, unknown, RegExp]>([
  ["", {}, /queue: expected 1 to 64 characters/],
  ["default", { limit: 0 }, /limit: expected an integer 1\.\.1000/],
  ["default", { timeout: "6m" }, /timeout: expected a duration of 1\.\.300000 ms/],
  ["default", { kinds: "x" }, /kinds: unknown option, did you mean kind/],
  ["defalt", {}, /did you mean "default"/],
])("refuses %j with %j", async (queue, options, message) => {
  await jobs.enqueue("works");
  await expect(jobs.queues.process(queue as string, options as object)).rejects.toThrow(message);
});
