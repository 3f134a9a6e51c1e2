import { jest } from "@jest/globals";
import { JobQueue, type WorkerOptions, defineJob } from "nestjs-pg-jobs";
import { Session } from "../../libs/jobs/src/pg/session.js";
import { Bench } from "../support/harness.js";
import { Gate, Gauge, handler, payloads } from "../support/handlers.js";
import { until } from "../support/until.js";

const wide = defineJob("wide");
const narrow = defineJob("narrow");
const other = defineJob("other");
const elsewhere = defineJob("narrow", { queue: "second" });

describe("concurrency", () => {
  let bench: Bench;
  beforeEach(async () => void (bench = await Bench.open()));
  afterEach(async () => await bench.close());

  /** Rows that are claimed. */
  const held = async () => {
    const [row] = await bench.sql<{ n: number }>(
      "select count(*)::int as n from jobs.job where lease_until is not null",
    );
    return row!.n;
  };

  it("never more bodies at once than the queue or the handler lets, and as many as that", async () => {
    const gauges = { wide: new Gauge(), narrow: new Gauge(), all: new Gauge() };
    const body = (gauge: Gauge) => () =>
      gauges.all.during(() => gauge.during(() => new Promise((done) => setTimeout(done, 5))));
    const app = await bench.worker(
      [handler(wide, body(gauges.wide)), handler(narrow, body(gauges.narrow), { concurrency: 2 })],
      { queues: { default: { concurrency: 5 }, second: { concurrency: 5 } } },
    );
    const jobs = app.get(JobQueue);
    await Promise.all([
      jobs.enqueueMany(narrow, payloads(60)),
      jobs.enqueueMany(elsewhere, payloads(60)),
      jobs.enqueueMany(wide, payloads(200)),
    ]);
    await until(async () => (await bench.states()).succeeded === 320, { what: "all to succeed" });
    // The handler's limit holds over both queues.
    expect(gauges.narrow.most).toBe(2);
    expect(gauges.wide.most).toBeGreaterThan(2);
    expect(gauges.all.most).toBeGreaterThan(3);
    expect(gauges.all.most).toBeLessThanOrEqual(5 + 2);
  });

  it.each([
    { queue: { concurrency: 3, prefetch: 4 }, most: 7 },
    { queue: { concurrency: 4 }, most: 8 },
    { queue: { concurrency: 3, prefetch: 0 }, most: 3 },
  ])("claims no more than concurrency and prefetch: $queue", async ({ queue, most }) => {
    const gate = new Gate();
    const gauge = new Gauge();
    const app = await bench.worker([handler(wide, () => gauge.during(() => gate.opened))], {
      queues: { default: queue },
      poll: "100ms",
    });
    await app.get(JobQueue).enqueueMany(wide, payloads(20));
    await until(async () => (await held()) === most, { what: `${most} to be claimed` });
    await until(() => gauge.now === queue.concurrency, { what: "as many run as may" });
    const seen: number[] = [];
    const watch = until(
      async () => {
        seen.push(await held());
        return (await bench.states()).succeeded === 20;
      },
      { every: 1, what: "all to succeed" },
    );
    gate.open();
    await watch;
    expect(Math.max(...seen)).toBeLessThanOrEqual(most);
    expect(gauge.most).toBe(queue.concurrency);
  });

  it.each<{ what: string; queue: NonNullable<WorkerOptions["queues"]>[string] }>([
    { what: "prefetch as large as the concurrency", queue: { concurrency: 3 } },
    { what: "a small prefetch", queue: { concurrency: 3, prefetch: 1 } },
    { what: "no prefetch", queue: { concurrency: 3, prefetch: 0 } },
  ])("handlers that are full do not block the others of the queue: $what", async ({ queue }) => {
    const gate = new Gate();
    const full = new Gauge();
    let ran = 0;
    const hold = () => full.during(() => gate.opened);
    const app = await bench.worker(
      [
        handler(narrow, hold, { concurrency: 1 }),
        handler(wide, hold, { concurrency: 1 }),
        handler(other, () => void ran++),
      ],
      { queues: { default: queue } },
    );
    const jobs = app.get(JobQueue);
    await jobs.enqueueMany(narrow, payloads(10));
    await jobs.enqueueMany(wide, payloads(10));
    await until(() => full.now === 2, { what: "both to be full" });
    await jobs.enqueueMany(other, payloads(30));
    await until(() => ran === 30, { what: "the third to run all the same" });
    expect(full.most).toBe(2);
    gate.open();
    await until(async () => (await bench.states()).succeeded === 50, { what: "the rest to run" });
  });

  it("a handler's slot that gets free in one queue is taken up in another", async () => {
    const gate = new Gate();
    const ran: string[] = [];
    const app = await bench.worker(
      [
        handler(
          narrow,
          async (_payload, { queue }) => {
            if (queue === "default") await gate.opened;
            ran.push(queue);
          },
          { concurrency: 1 },
        ),
      ],
      { queues: { default: {}, second: {} } },
    );
    const jobs = app.get(JobQueue);
    await jobs.enqueue(narrow);
    await until(async () => (await held()) === 1, { what: "the first to be claimed" });
    await jobs.enqueue(elsewhere);
    await until(async () => (await held()) === 2, { what: "the second to be claimed ahead" });
    gate.open();
    await until(() => ran.length === 2, { what: "both to run" });
    expect(ran).toEqual(["default", "second"]);
  });

  it("a full handler with jobs of many priorities blocks nobody either", async () => {
    const gate = new Gate();
    let ran = 0;
    const jobs = await bench.producer();
    for (const priority of [1, 2, 3, 4, 5]) await jobs.enqueue(narrow, {}, { priority });
    await bench.worker(
      [handler(narrow, () => gate.opened, { concurrency: 1 }), handler(other, () => void ran++)],
      { queues: { default: { concurrency: 2, prefetch: 2 } }, grace: 1 },
    );
    await until(async () => (await held()) >= 2, { what: "some to be claimed" });
    await jobs.enqueueMany(other, payloads(5));
    try {
      await until(() => ran === 5, { what: "the other kind to run" });
    } finally {
      gate.open();
    }
  });

  it("a full handler beside another lane is fed at once, and its backlog is not looked at in circles", async () => {
    const sent: (string | null)[] = [];
    const exclusive = Reflect.get(Session.prototype, "exclusive") as Session["exclusive"];
    const spy = jest.spyOn(Session.prototype, "exclusive").mockImplementation(function (
      this: Session,
      fn,
    ) {
      return exclusive.call(this, (run) =>
        fn((statement, values) => {
          sent.push(statement.name);
          return run(statement, values);
        }),
      ) as never;
    });
    try {
      const gate = new Gate();
      let ran = 0;
      const app = await bench.worker(
        [
          handler(wide, () => "done"),
          handler(narrow, async () => (++ran === 61 ? await gate.opened : null), {
            concurrency: 1,
          }),
        ],
        { poll: "30s" },
      );
      const jobs = app.get(JobQueue);
      const count = (...names: string[]) =>
        sent.filter((name) => name !== null && names.includes(name)).length;
      await jobs.enqueue(wide, {});
      await until(async () => (await bench.states()).succeeded === 1);
      sent.length = 0;
      await jobs.enqueueMany(narrow, payloads(100));
      await until(() => ran === 61, { what: "60 of them to have run" });
      // Not two at a time, one look apart.
      expect(1.5 * count("look")).toBeLessThan(count("claim", "claim_noted"));
      const restful = async () => {
        sent.length = 0;
        await new Promise((done) => setTimeout(done, 1_500));
        return count("look", "claim", "claim_noted") < 6;
      };
      await until(restful, { what: "it comes to rest" });
      // What is due in the other lane is seen in time all the same.
      const { id } = await jobs.enqueue(wide, {}, { delay: "300ms" });
      await until(async () => (await bench.state(id)) === "succeeded", { what: "it is seen" });
      gate.open();
      await until(async () => (await bench.states()).succeeded === 102, { what: "all to succeed" });
    } finally {
      spy.mockRestore();
    }
  });
});
