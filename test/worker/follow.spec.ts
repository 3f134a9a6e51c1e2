import { getEventListeners, once } from "node:events";
import { Readable } from "node:stream";
import { jest } from "@jest/globals";
import {
  BadCursorError,
  BadJobIdError,
  FollowClosedError,
  JobInspector,
  JobQueue,
  JobResultTimeoutError,
  type JobNews,
  OptionsError,
} from "nestjs-pg-jobs";
import { Gate, handler, payloads, reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { looks } from "../support/looks.js";
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

const POLL_MS = 1_000;
const DONE = { done: true, value: undefined };

afterEach(() => jest.restoreAllMocks());

const after = async (ms: number, what: string) => {
  const from = performance.now();
  await until(() => performance.now() - from > ms, { what });
};

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

it("tells of many lines at once, in the order in which they were said", async () => {
  const COUNT = 450;
  const app = await bench.worker([
    handler("work", (_, job) => {
      for (let n = 1; n <= COUNT; n++) job.log(`line ${n}`);
    }),
  ]);
  const { id } = await app.get(JobQueue).enqueue("work");
  await reached(bench, id, "succeeded");
  const from = performance.now();
  const all: JobNews[] = [];
  for await (const one of app.get(JobInspector).follow(id)) all.push(one);
  expect(performance.now() - from).toBeLessThan(POLL_MS);
  const lines = Array.from({ length: COUNT }, (_, n) => `line ${n + 1}`);
  expect(heard(all)).toEqual([...lines, "succeeded 1"]);
});

it("whoever leaves while he waits is gone at once, and nothing looks for him any more", async () => {
  const jobs = await bench.producer();
  const { id } = await jobs.enqueue("work");
  const inspector = (await bench.app([bench.root()])).get(JobInspector);
  const count = looks(bench);
  const from = performance.now();

  const returned = inspector.follow(id);
  expect(await returned.next()).toMatchObject({ value: { state: "queued" } });
  const waits = [returned.next(), returned.next()];
  expect(await returned.return(undefined)).toEqual(DONE);
  expect(await Promise.all(waits)).toEqual([DONE, DONE]);
  expect(await returned.next()).toEqual(DONE);

  const thrown = inspector.follow(id);
  await thrown.next();
  const wait = thrown.next();
  await expect(thrown.throw(new Error("enough"))).rejects.toThrow("enough");
  expect(await wait).toEqual(DONE);

  const stream = Readable.from(inspector.follow(id));
  stream.resume();
  await once(stream, "data");
  stream.destroy();
  await once(stream, "close");

  expect(performance.now() - from).toBeLessThan(POLL_MS);
  const before = count();
  await after(2 * POLL_MS, "looks would have come");
  expect(count()).toBe(before);
});

it("all followers of a process share a look a second", async () => {
  const FOLLOWERS = 600;
  const app = await bench.app([bench.root()]);
  const all = await app.get(JobQueue).enqueueMany("work", payloads(FOLLOWERS));
  const inspector = app.get(JobInspector);
  const told = all.map(({ id }) => listen(inspector.follow(id)));
  await until(() => told.every((one) => one.all.length === 1), { what: "each is told once" });
  const count = looks(bench);
  const from = performance.now();
  await after(3 * POLL_MS, "three looks");
  const most = Math.ceil((performance.now() - from) / POLL_MS) * 4;
  expect(count()).toBeGreaterThan(0);
  expect(count()).toBeLessThanOrEqual(most);
  await bench.sql("delete from jobs.job");
  await Promise.all(told.map(({ over }) => over));
  expect(new Set(told.flatMap((one) => heard(one.all)))).toEqual(new Set(["queued 0", "gone 0"]));
});

it("is told that the app closes, by an error of its own", async () => {
  const jobs = await bench.producer();
  const { id } = await jobs.enqueue("work");
  const app = await bench.app([bench.root()]);
  const inspector = app.get(JobInspector);
  const news = inspector.follow(id);
  await news.next();
  const [wait, further] = [news.next(), news.next()];
  const told = wait!.catch((error: unknown) => error);
  await app.close();
  expect(await told).toMatchObject({ code: "FOLLOW_CLOSED", id });
  expect(await further).toEqual(DONE);
  expect(await news.next()).toEqual(DONE);
  await expect(inspector.follow(id).next()).rejects.toThrow(FollowClosedError);
});

it("a signal of many follows and results is listened to once, and not at all in the end", async () => {
  const app = await bench.app([bench.root()]);
  const jobs = app.get(JobQueue);
  const { id } = await jobs.enqueue("work");
  const stop = new AbortController();
  const { signal } = stop;
  const all = payloads(20).map(() => listen(app.get(JobInspector).follow(id, { signal })));
  const results = payloads(20).map(async () => await jobs.result(id, { signal }).catch(String));
  await until(() => all.every((one) => one.all.length > 0), { what: "all of them wait" });
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  stop.abort("enough");
  await Promise.all(all.map(({ over }) => over));
  expect(new Set(await Promise.all(results))).toEqual(new Set(["enough"]));
  expect(getEventListeners(signal, "abort")).toHaveLength(0);

  const kept = new AbortController();
  const [one, other] = [1, 2].map(() => jobs.result(id, { timeout: 1, signal: kept.signal }));
  await expect(one).rejects.toThrow(JobResultTimeoutError);
  await expect(other).rejects.toThrow(JobResultTimeoutError);
  expect(getEventListeners(kept.signal, "abort")).toHaveLength(0);
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
