import {
  BadCursorError,
  BadJobIdError,
  JobInspector,
  JobQueue,
  type JobNews,
  OptionsError,
} from "nestjs-pg-jobs";
import { Gate, handler, reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// What an inspector hears of a job while it runs, in the order in which it was said.

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => await bench.close());

const heard = (news: readonly JobNews[]) =>
  news.map((one) =>
    one.type === "state"
      ? `${one.state} ${one.attempt}`
      : one.type === "log"
        ? one.line.text
        : `${one.progress.percent} %`,
  );

/** Gathers what is told, in the background. */
function listen(news: AsyncIterable<JobNews>): { all: JobNews[]; over: Promise<void> } {
  const all: JobNews[] = [];
  const over = (async () => {
    for await (const one of news) all.push(one);
  })();
  return { all, over };
}

it("a job is followed from its queue to its end, each line once and in order", async () => {
  const gate = new Gate();
  const jobs = await bench.producer();
  const { id } = await jobs.enqueue("work");
  const app = await bench.app([bench.root()]);
  const { all, over } = listen(app.get(JobInspector).follow(id));
  await until(() => all.length > 0, { what: "it waits" });
  expect(heard(all)).toEqual(["queued 0"]);
  await bench.worker([
    handler("work", async (_, job) => {
      job.log("one");
      job.progress(10);
      await gate.opened;
      job.log("two");
      job.log("three");
      job.progress(100);
    }),
  ]);
  await until(() => heard(all).includes("one"), { what: "its first line is told while it runs" });
  expect(await bench.state(id)).toBe("running");
  gate.open();
  await over;
  expect(heard(all).filter((one) => !one.endsWith("%"))).toEqual([
    "queued 0",
    "running 1",
    "one",
    "two",
    "three",
    "succeeded 1",
  ]);
  expect(
    heard(all)
      .filter((one) => one.endsWith("%"))
      .at(-1),
  ).toBe("100 %");
});

it("goes on behind a line that was told before", async () => {
  const app = await bench.worker([
    handler("work", (_, job) => {
      for (let n = 1; n <= 5; n++) job.log(`line ${n}`);
    }),
  ]);
  const { id } = await app.get(JobQueue).enqueue("work");
  await reached(bench, id, "succeeded");
  const inspector = app.get(JobInspector);
  const first: JobNews[] = [];
  for await (const one of inspector.follow(id)) first.push(one);
  expect(heard(first)).toEqual(["line 1", "line 2", "line 3", "line 4", "line 5", "succeeded 1"]);
  const third = first[2]!;
  const after = third.type === "log" ? third.after : "";
  const rest: JobNews[] = [];
  for await (const one of inspector.follow(id, { after })) rest.push(one);
  expect(heard(rest)).toEqual(["line 4", "line 5", "succeeded 1"]);
});

it("ends with its signal, and for who leaves it; a job that is not there is gone", async () => {
  const jobs = await bench.producer();
  const { id } = await jobs.enqueue("work");
  const app = await bench.app([bench.root()]);
  const inspector = app.get(JobInspector);
  const stop = new AbortController();
  const { all, over } = listen(inspector.follow(id, { signal: stop.signal }));
  await until(() => all.length > 0, { what: "it waits" });
  const from = performance.now();
  stop.abort();
  await over;
  expect(performance.now() - from).toBeLessThan(500);
  for await (const one of inspector.follow(id)) {
    expect(heard([one])).toEqual(["queued 0"]);
    break;
  }
  await bench.sql("delete from jobs.job");
  const gone: JobNews[] = [];
  for await (const one of inspector.follow(id)) gone.push(one);
  expect(heard(gone)).toEqual(["gone 0"]);
});

it("what does not fit is refused", async () => {
  const app = await bench.app([bench.root()]);
  const inspector = app.get(JobInspector);
  const first = async (id: string, options?: unknown) =>
    await inspector.follow(id, options as never).next();
  await expect(first("x")).rejects.toThrow(BadJobIdError);
  await expect(first("1-1", { signal: 7 })).rejects.toThrow(OptionsError);
  await expect(first("1-1", { sinal: 7 })).rejects.toThrow(OptionsError);
  await expect(first("1-1", { after: "?" })).rejects.toThrow(BadCursorError);
  await expect(first("1-1", 7)).rejects.toThrow(OptionsError);
});
