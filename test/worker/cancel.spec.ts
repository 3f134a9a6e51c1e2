import { type INestApplicationContext } from "@nestjs/common";
import { type JobEvent, Events, JobQueue, fixed, skip, snooze } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

// What becomes of a running job whose cancel was requested: it is not run again.

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => await bench.close());

function hear(app: INestApplicationContext): JobEvent[] {
  const told: JobEvent[] = [];
  app
    .get(Events)
    .on(["cancelled", "retried", "snoozed", "handed-back", "lost"], (event) => told.push(event));
  return told;
}

describe("a running job whose cancel was requested", () => {
  const ends: Record<string, [() => unknown, state: string, errors: number]> = {
    throws: [
      () => {
        throw new Error("boom");
      },
      "cancelled",
      1,
    ],
    snoozes: [() => snooze(1), "cancelled", 0],
    returns: [() => "done", "succeeded", 0],
    skips: [() => skip("nothing to do"), "skipped", 0],
  };

  it.each(Object.keys(ends))("and %s", async (how) => {
    const gate = new Gate();
    const [end, state, errors] = ends[how]!;
    let runs = 0;
    const app = await bench.worker([
      handler("work", async () => {
        runs++;
        await gate.opened;
        return end();
      }),
    ]);
    const told = hear(app);
    const jobs = app.get(JobQueue);
    const { id } = await jobs.enqueue("work", {}, { key: "k" });
    await reached(bench, id, "running");
    expect(await jobs.cancel(id)).toBe("requested");
    gate.open();
    await reached(bench, id, state);
    expect(runs).toBe(1);
    await until(() => state !== "cancelled" || told.length > 0, { what: "observers are told" });
    expect(told.map(({ event }) => event)).toEqual(state === "cancelled" ? ["cancelled"] : []);
    expect(await bench.sql("select 1 from jobs.attempt_error")).toHaveLength(errors);
    // Its key is free, and the worker goes on.
    const next = await jobs.enqueue("work", {}, { key: "k" });
    await until(async () => (await jobs.get(next.id))!.attempt > 0, { what: "the next one" });
  });

  it("and is handed back by a worker that shuts down", async () => {
    const app = await bench.worker(
      [
        handler(
          "work",
          (_, job) => new Promise((_resolve, fail) => job.signal.addEventListener("abort", fail)),
        ),
      ],
      { grace: "50ms" },
    );
    const told = hear(app);
    const jobs = await bench.producer();
    const { id } = await jobs.enqueue("work", {});
    await reached(bench, id, "running");
    expect(await jobs.cancel(id)).toBe("requested");
    await app.close();
    expect(await bench.state(id)).toBe("cancelled");
    expect(told.map(({ event }) => event)).toEqual(["cancelled"]);
  });

  it("and was put back by a worker of the first release is cancelled by the next that claims it", async () => {
    const jobs = await bench.producer();
    const { id } = await jobs.enqueue("work", {});
    // That release ignores the request and leaves it on the row.
    await bench.sql("update jobs.job set cancel_at = now(), attempt = 1, failures = 1");
    let runs = 0;
    const app = await bench.worker([handler("work", () => void runs++)]);
    const told = hear(app);
    await reached(bench, id, "cancelled");
    const next = await jobs.enqueue("work", {});
    await reached(bench, next.id, "succeeded");
    expect(runs).toBe(1);
    expect(told.map((event) => event.id)).toEqual([id]);
  });

  it("and was put back by a worker of the first release is withdrawn by another cancel", async () => {
    const jobs = await bench.producer();
    const { id } = await jobs.enqueue("work", {});
    await bench.sql("update jobs.job set cancel_at = now(), attempt = 1, failures = 1");
    expect(await jobs.cancel(id)).toBe("cancelled");
  });
});

it("a cancel in a transaction that stays open keeps no other job from ending", async () => {
  const gate = new Gate();
  const app = await bench.worker([
    handler("work", async (_, job) => {
      job.log("at work");
      await gate.opened;
    }),
  ]);
  const jobs = app.get(JobQueue);
  const [asked, ...others] = await jobs.enqueueMany("work", [{}, {}, {}, {}, {}]);
  for (const { id } of [asked!, ...others]) await reached(bench, id, "running");
  const client = await bench.client();
  await client.query("begin");
  expect(await jobs.in(client).cancel(asked!.id)).toBe("requested");
  gate.open();
  for (const { id } of others) await reached(bench, id, "succeeded");
  // The row was waited for once; whatever ends from now on does not meet it.
  const from = performance.now();
  const next = await jobs.enqueue("work", {});
  await reached(bench, next.id, "succeeded");
  expect(performance.now() - from).toBeLessThan(1_500);
  expect(await bench.state(asked!.id)).toBe("running");
  await client.query("commit");
  client.release();
  await reached(bench, asked!.id, "succeeded");
  expect(await bench.sql("select text from jobs.job_log")).toHaveLength(6);
});

it("a cancel of a job among others costs the others nothing", async () => {
  const gate = new Gate();
  const app = await bench.worker([
    handler(
      "work",
      async (payload) => {
        await gate.opened;
        if ((payload as { n: number }).n % 2 === 0) throw new Error("boom");
      },
      { backoff: fixed("1h") },
    ),
  ]);
  const jobs = app.get(JobQueue);
  const all = await jobs.enqueueMany(
    "work",
    Array.from({ length: 10 }, (_, n) => ({ n })),
    { attempts: 3 },
  );
  for (const { id } of all) await reached(bench, id, "running");
  for (const { id } of all.slice(0, 4)) expect(await jobs.cancel(id)).toBe("requested");
  gate.open();
  const expected = ["cancelled", "succeeded", "cancelled", "succeeded", "queued", "succeeded"];
  expected.push("queued", "succeeded", "queued", "succeeded");
  for (const [n, state] of expected.entries()) await reached(bench, all[n]!.id, state);
  const failed = await bench.sql("select job_id from jobs.attempt_error");
  expect(failed).toHaveLength(5);
});
