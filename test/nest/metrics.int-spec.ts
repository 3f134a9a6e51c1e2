import { jest } from "@jest/globals";
import { type INestApplicationContext, Logger, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import {
  type JobContext,
  JobInspector,
  JobQueue,
  JobsModule,
  OptionsError,
  bury,
  defineJob,
  fixed,
  skip,
  snooze,
} from "nestjs-pg-jobs";
import { JobsMetrics, JobsMetricsModule, type JobsMetricsOptions } from "nestjs-pg-jobs/prometheus";
import { Gauge, Registry } from "prom-client";
import { JobsWorkerModule } from "../../libs/jobs/src/jobs-worker.module.js";
import { serveHealth } from "../../libs/jobs/src/worker-health.js";
import { promtool, runPromtool } from "../../tools/prometheus.mjs";
import { Bench, feature } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { Scraped, type Series } from "../support/scraped.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

// What an app with JobsMetricsModule tells whoever scrapes it.

/** Longer than a scrape waits for the tables, and what a busy machine adds. */
const PATIENCE_MS = 3_000 + 5_000;

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => {
  await bench.close();
  jest.restoreAllMocks();
});

/** With a registry of its own: several apps of a spec share a process. */
const metrics = (options: JobsMetricsOptions = {}) =>
  JobsMetricsModule.forRoot({ registry: new Registry(), ...options });
const scrape = async (app: INestApplicationContext) =>
  new Scraped(await app.get(JobsMetrics).text());

const total = (found: readonly Series[]) => found.reduce((sum, { value }) => sum + value, 0);
/** Scrapes until it finds what is looked for. */
const scraping = async (
  app: INestApplicationContext,
  wanted: (found: Scraped) => boolean,
  what: string,
  timeout = 20_000,
): Promise<Scraped> =>
  await until(
    async () => {
      const found = await scrape(app);
      return wanted(found) && found;
    },
    { what, timeout },
  );

/** A worker with metrics. */
async function worker(
  handlers: Parameters<typeof feature>[0],
  { lease = "30s", ...options }: JobsMetricsOptions & { lease?: string } = {},
): Promise<INestApplicationContext> {
  return await bench.app([
    bench.root(),
    metrics(options),
    JobsModule.forWorker({ imports: [feature(handlers)], poll: "100ms", lease }),
  ]);
}
/** An app without a worker, that has read no tables yet. */
const onlooker = async (options: JobsMetricsOptions = {}) =>
  await bench.app([bench.root(), metrics(options)]);

describe("what this process does to jobs", () => {
  it("is counted by event, queue, kind and state, with its durations", async () => {
    const app = await worker([
      handler("succeeds", () => "done"),
      handler("fails", () => Promise.reject(new Error("no use")), {
        attempts: 2,
        backoff: fixed(1),
      }),
      handler("skips", () => skip("nothing to do")),
      handler("buries", () => bury("no use")),
      handler("snoozes", (_, { attempt }: JobContext) => (attempt === 1 ? snooze(1) : "done")),
    ]);
    const jobs = app.get(JobQueue);
    const ends = {
      succeeds: "succeeded",
      fails: "dead",
      skips: "skipped",
      buries: "dead",
      snoozes: "succeeded",
    };
    await jobs.enqueueMany("succeeds", [{}, {}]);
    for (const [kind, state] of Object.entries(ends)) {
      const { id } = await jobs.enqueue(kind);
      await reached(bench, id, state);
    }
    const cancelled = await jobs.enqueue("succeeds", {}, { delay: "1h" });
    await jobs.cancel(cancelled.id);
    // What is in the table is told a moment later.
    const scraped = await scraping(
      app,
      (found) => total(found.of("jobs_attempts_count")) === 7,
      "all ends are counted",
    );
    const told = (kind: string, event: string) =>
      scraped
        .of("jobs_events_total", { queue: "default", kind, event })
        .map(({ labels, value }) => [labels.state, value]);
    expect(told("succeeds", "enqueued")).toEqual([["queued", 4]]);
    expect(told("succeeds", "started")).toEqual([["running", 3]]);
    expect(told("succeeds", "succeeded")).toEqual([["succeeded", 3]]);
    expect(told("succeeds", "cancelled")).toEqual([["cancelled", 1]]);
    expect(told("succeeds", "died")).toEqual([["dead", 0]]);
    expect(told("fails", "started")).toEqual([["running", 2]]);
    expect(told("fails", "retried")).toEqual([["queued", 1]]);
    expect(told("fails", "died")).toEqual([["dead", 1]]);
    expect(told("skips", "skipped")).toEqual([["skipped", 1]]);
    expect(told("buries", "died")).toEqual([["dead", 1]]);
    expect(told("snoozes", "snoozed")).toEqual([["queued", 1]]);
    const attempts = (kind: string) => [
      scraped.value("jobs_attempts_count", { kind }),
      scraped.value("jobs_attempts_sum", { kind }),
      scraped.value("jobs_attempts_bucket", { kind, le: "1" }),
      scraped.value("jobs_attempts_bucket", { kind, le: "+Inf" }),
    ];
    expect(attempts("succeeds")).toEqual([3, 3, 3, 3]);
    expect(attempts("fails")).toEqual([1, 2, 0, 1]);
    expect(scraped.value("jobs_run_duration_seconds_count", { kind: "fails" })).toBe(2);
    expect(scraped.value("jobs_wait_duration_seconds_count", { kind: "fails" })).toBe(2);
  });

  it("has how long it was due, by the database's clock, and how long it ran", async () => {
    const gate = new Gate();
    const app = await worker([handler("slow", () => gate.opened)]);
    const jobs = app.get(JobQueue);
    const { id } = await jobs.enqueue("slow", {}, { delay: "1h" });
    await bench.age(id, "2 hours");
    await reached(bench, id, "running");
    const from = performance.now();
    await until(() => performance.now() - from > 300, { what: "it has run for a while" });
    gate.open();
    await reached(bench, id, "succeeded");
    const scraped = await scraping(
      app,
      (found) => found.value("jobs_run_duration_seconds_count") === 1,
      "its end is counted",
    );
    expect(scraped.value("jobs_wait_duration_seconds_sum")).toBeGreaterThan(3_599);
    expect(scraped.value("jobs_wait_duration_seconds_sum")).toBeLessThan(3_600 + 60);
    expect(scraped.value("jobs_wait_duration_seconds_bucket", { le: "1800" })).toBe(0);
    expect(scraped.value("jobs_run_duration_seconds_sum")).toBeGreaterThanOrEqual(0.3);
    expect(scraped.value("jobs_run_duration_seconds_bucket", { le: "0.25" })).toBe(0);
    expect(scraped.value("jobs_run_duration_seconds_bucket", { le: "+Inf" })).toBe(1);
  });

  it("begins at 0 with the first scrape, of what this process has handlers for", async () => {
    const Far = defineJob("far", { queue: "elsewhere" });
    const app = await worker([handler("works", () => "done"), handler(Far, () => "done")], {
      database: false,
    });
    const begun = (await scrape(app)).of("jobs_events_total");
    const told = begun.map(({ labels, value }) => [labels.queue, labels.kind, labels.event, value]);
    const events = ["started", "succeeded", "retried", "died", "lost"];
    expect(told).toEqual([
      ...events.map((event) => ["default", "works", event, 0]),
      ...events.map((event) => ["elsewhere", "far", event, 0]),
    ]);
  });

  it("has no more names at 0 than it may", async () => {
    jest.spyOn(Logger.prototype, "warn").mockImplementation(() => {});
    const kinds = Array.from({ length: 5 }, (_, n) => handler(`kind-${n}`, () => "done"));
    const app = await worker(kinds, { maxLabels: 2, database: false });
    const begun = (await scrape(app)).of("jobs_events_total", { event: "died" });
    expect(begun.map(({ labels }) => labels.kind)).toEqual(["kind-0", "kind-1", "other"]);
  });

  it("has a bounded number of names, and says once that there are more", async () => {
    const warned = jest.spyOn(Logger.prototype, "warn").mockImplementation(() => {});
    const app = await onlooker({ maxLabels: 3, database: false });
    const jobs = app.get(JobQueue);
    for (let n = 0; n < 8; n++) await jobs.enqueue(`kind-${n}`, {}, { queue: `queue-${n % 4}` });
    const found = (await scrape(app)).of("jobs_events_total", { event: "enqueued" });
    const distinct = (label: string) => new Set(found.map(({ labels }) => labels[label])).size;
    expect(total(found)).toBe(8);
    expect([distinct("queue"), distinct("kind")]).toEqual([4, 4]);
    expect(found).toContainEqual(
      expect.objectContaining({ labels: expect.objectContaining({ kind: "other" }) }),
    );
    expect(warned.mock.calls).toEqual([
      ["More queues than get a label of their own in metrics", { maxLabels: 3, rest: "other" }],
    ]);
  });
});

describe("how this process is", () => {
  it("tells of its slots, its leases and what it has lost", async () => {
    const gate = new Gate();
    const app = await worker([handler("held", () => gate.opened)], { lease: "1s" });
    const before = await scrape(app);
    expect(before.value("jobs_attempts_lost_total")).toBe(0);
    expect(before.value("jobs_slots")).toBe(10);
    const { id } = await app.get(JobQueue).enqueue("held");
    const during = await scraping(
      app,
      (found) => found.value("jobs_leases_renewed_total")! >= 2,
      "its lease is renewed",
    );
    expect(during.value("jobs_running")).toBe(1);
    expect(during.value("jobs_settles_failing_seconds")).toBe(0);
    await bench.sql("update jobs.job set attempt = attempt + 5 where queue_id || '-' || id = $1", [
      id,
    ]);
    const after = await scraping(
      app,
      (found) => found.value("jobs_attempts_lost_total") === 1,
      "it knows that another one has the job",
    );
    expect(after.value("jobs_events_total", { event: "lost", kind: "held" })).toBe(1);
    gate.open();
  });

  it("puts several workers of a process together", async () => {
    const serving = (queue: string) =>
      JobsModule.forWorker({
        imports: [feature([handler(defineJob(queue, { queue }), () => "done")])],
        queues: { [queue]: { concurrency: 3 } },
      });
    const app = await bench.app([
      bench.root(),
      metrics({ database: false }),
      serving("one"),
      serving("two"),
    ]);
    const scraped = await scrape(app);
    expect(scraped.value("jobs_slots")).toBe(6);
    expect(scraped.value("jobs_settles_failing_seconds")).toBe(0);
    expect(scraped.value("jobs_attempts_lost_total")).toBe(0);
  });

  it("says when a worker stands still and cannot be repaired", async () => {
    const app = await worker([handler("works", () => "done")], { database: false });
    expect((await scrape(app)).value("jobs_worker_stuck")).toBe(0);
    const { worker: still } = app.get(JobsWorkerModule, { strict: false });
    jest.spyOn(still!, "stuck", "get").mockReturnValue(true);
    expect((await scrape(app)).value("jobs_worker_stuck")).toBe(1);
  });

  it("tells of its connections: what is lent, and who waits", async () => {
    const gate = new Gate();
    const transacts = async (_: unknown, job: JobContext) =>
      await job.transaction(async () => await gate.opened);
    const app = await bench.app([
      bench.root({ connections: 6 }),
      metrics({ database: false }),
      JobsModule.forWorker({
        imports: [feature([handler("transacts", transacts)])],
        poll: "100ms",
      }),
    ]);
    await app.get(JobQueue).enqueueMany("transacts", [{}, {}, {}]);
    const scraped = await scraping(
      app,
      (found) => found.value("jobs_connections_waiting") === 2,
      "one has the connection that is left, two wait",
    );
    gate.open();
    const connections = (use: string) => scraped.value("jobs_connections", { use });
    expect(scraped.value("jobs_connections_limit")).toBe(6);
    expect(connections("lent")).toBe(1);
    expect(connections("reserved")).toBe(2);
    const over = await scraping(
      app,
      (found) => found.value("jobs_events_total", { event: "succeeded" }) === 3,
      "they are over",
    );
    // Those of the way in, of claims and, once it is needed, of settles.
    expect([2, 3]).toContain(over.value("jobs_connections", { use: "sessions" }));
    expect(over.value("jobs_connections_waiting")).toBe(0);
  });

  it("has nothing of workers in a process without", async () => {
    const scraped = await scrape(await onlooker({ database: false }));
    for (const name of [
      "running",
      "slots",
      "attempts_lost_total",
      "leases_renewed_total",
      "worker_stuck",
    ]) {
      expect(scraped.types.has(`jobs_${name}`)).toBe(true);
      expect(scraped.of(`jobs_${name}`)).toEqual([]);
    }
    expect(scraped.types.has("jobs_database_up")).toBe(false);
    expect(scraped.value("jobs_event_loop_delay_max_seconds")).toBeGreaterThanOrEqual(0);
  });
});

describe("the whole database", () => {
  it("is told by any process: depth, lag, dead letters, workers, what nobody serves", async () => {
    const served = await worker([
      handler("works", () => "done"),
      handler("buries", () => bury("no")),
    ]);
    const jobs = served.get(JobQueue);
    for (const [kind, state] of Object.entries({ works: "succeeded", buries: "dead" }))
      await reached(bench, (await jobs.enqueue(kind)).id, state);
    await jobs.enqueue("works", {}, { delay: "1h" });
    await jobs.enqueue("nobody-knows");
    const { id } = await jobs.enqueue("works", {}, { queue: "far" });
    await jobs.enqueue("works", {}, { queue: "far" });
    await bench.age(id, "1 hour");
    const scraped = await scrape(await onlooker());
    const of = (name: string, labels = {}) => scraped.value(`jobs_${name}`, labels);
    expect(of("database_up")).toBe(1);
    expect([
      of("queue_paused", { queue: "far" }),
      of("queue_paused_kinds", { queue: "far" }),
    ]).toEqual([0, 0]);
    const states = (queue: string) =>
      Object.fromEntries(
        scraped.of("jobs_queue_jobs", { queue }).map(({ labels, value }) => [labels.state, value]),
      );
    const none = { skipped: 0, cancelled: 0, archived: 0, pruned: 0, deleted: 0 };
    expect(states("default")).toEqual({ ...none, unfinished: 2, succeeded: 1, dead: 1 });
    expect(states("far")).toEqual({ ...none, unfinished: 2, succeeded: 0, dead: 0 });
    expect(of("dead_letters", { queue: "default", kind: "buries" })).toBe(1);
    expect(of("dead_letters", { queue: "default", kind: "works" })).toBe(0);
    expect(of("queue_backlog", { queue: "default" })).toBe(1);
    expect(of("queue_backlog", { queue: "far" })).toBe(2);
    expect(of("queue_lag_seconds", { queue: "far" })).toBeGreaterThanOrEqual(3_600);
    expect(of("queue_lag_seconds", { queue: "far" })).toBeLessThan(3_660);
    const since = Date.now() / 1_000 - of("queue_oldest_due_timestamp_seconds", { queue: "far" })!;
    expect(Math.abs(since - 3_600)).toBeLessThan(60);
    expect(of("queue_unknown_kinds", { queue: "default" })).toBe(1);
    expect(of("queue_unknown_kinds", { queue: "far" })).toBe(1);
    expect(of("queue_workers", { queue: "default" })).toBe(1);
    expect(of("queue_workers", { queue: "far" })).toBe(0);
    expect(of("workers")).toBe(1);
    expect(of("queue_expired_leases", { queue: "far" })).toBe(0);
    await bench.sql(
      "update jobs.job set lease_until = now() - interval '1 minute' where queue_id || '-' || id = $1",
      [id],
    );
    await jobs.queues.pause("far");
    await jobs.queues.pause("default", { kind: "works" });
    const later = await scrape(await onlooker());
    const paused = (queue: string) =>
      ["paused", "paused_kinds"].map((name) => later.value(`jobs_queue_${name}`, { queue }));
    expect([paused("far"), paused("default")]).toEqual([
      [1, 0],
      [0, 1],
    ]);
    expect(later.value("jobs_queue_expired_leases", { queue: "far" })).toBe(1);
  });

  it("puts what has no label of its own together: sums, and the longest lag", async () => {
    const jobs = await bench.producer();
    jest.spyOn(Logger.prototype, "warn").mockImplementation(() => {});
    for (const [queue, age] of [
      ["a", 1],
      ["b", 2],
      ["c", 3],
    ] as const) {
      const { id } = await jobs.enqueue("works", {}, { queue });
      await bench.age(id, `${age} hours`);
    }
    const scraped = await scrape(await onlooker({ maxLabels: 1 }));
    expect(scraped.value("jobs_queue_backlog", { queue: "a" })).toBe(1);
    expect(scraped.value("jobs_queue_backlog", { queue: "other" })).toBe(2);
    expect(scraped.value("jobs_queue_lag_seconds", { queue: "other" })).toBeGreaterThanOrEqual(
      3 * 3_600,
    );
    expect(scraped.of("jobs_dead_letters").map(({ labels }) => labels)).toEqual([
      { queue: "a", kind: "works", schema: bench.schema },
      { queue: "other", kind: "other", schema: bench.schema },
    ]);
  });

  it("is told by schema, or by what it is to be called: two can be told apart", async () => {
    await (await bench.producer()).enqueue("works");
    const told = async (options: JobsMetricsOptions) => {
      const app = await onlooker(options);
      await app.get(JobQueue).enqueue("works");
      const { series } = await scrape(app);
      const ofJobs = series.filter(({ name }) => /^jobs_(queue|dead|events|database)/.test(name));
      expect(ofJobs.length).toBeGreaterThan(10);
      return [...new Set(ofJobs.map(({ labels }) => labels.schema))];
    };
    expect(await told({})).toEqual([bench.schema]);
    expect(await told({ schemaLabel: "shop" })).toEqual(["shop"]);
  });

  it("is asked once in 10 s, however often and by how many it is scraped", async () => {
    const app = await onlooker();
    const inspector = app.get(JobInspector);
    const asked = (["health", "counts", "unknownKinds", "workers"] as const).map((name) =>
      jest.spyOn(inspector, name),
    );
    await Promise.all(Array.from({ length: 20 }, () => scrape(app)));
    for (let n = 0; n < 20; n++) expect((await scrape(app)).value("jobs_database_up")).toBe(1);
    expect(asked.map((spy) => spy.mock.calls.length)).toEqual([1, 1, 1, 1]);
  });

  describe("while it is away", () => {
    let proxy: TcpProxy;
    beforeEach(async () => void (proxy = await TcpProxy.start(bench.url)));
    afterEach(async () => {
      await bench.closeApps();
      await proxy.close();
    });

    it.each(["reset", "blackhole"] as const)(
      "(%s) what the process knows is served all the same, and soon; and the rest when it is back",
      async (mode) => {
        const app = await bench.app([
          bench.root({ connection: { url: proxy.url(bench.url) } }),
          metrics(),
        ]);
        await app.get(JobQueue).enqueue("works");
        proxy.setMode(mode);
        // The next connection cannot be made, the one that there is does not answer any more.
        const from = performance.now();
        const scraped = await scrape(app);
        expect(performance.now() - from).toBeLessThan(PATIENCE_MS);
        expect(scraped.value("jobs_database_up")).toBe(0);
        expect(scraped.of("jobs_queue_jobs")).toEqual([]);
        expect(scraped.value("jobs_events_total", { event: "enqueued" })).toBe(1);
        expect(scraped.value("jobs_connections_limit")).toBe(10);
        proxy.setMode("pass");
        const back = await scraping(
          app,
          (found) => found.value("jobs_database_up") === 1,
          "the tables are read again",
          60_000,
        );
        expect(back.value("jobs_queue_jobs", { queue: "default", state: "unfinished" })).toBe(1);
      },
      90_000,
    );

    it("and has never been migrated: says so, and answers", async () => {
      const fresh = await Bench.open({ migrated: false });
      try {
        const app = await fresh.app([fresh.root(), metrics()]);
        expect((await scrape(app)).value("jobs_database_up")).toBe(0);
      } finally {
        await fresh.close();
      }
    });
  });
});

describe("the registry", () => {
  const problems = async (boot: () => Promise<unknown>): Promise<readonly string[]> => {
    const error: unknown = await boot().then(
      () => new Error("it booted"),
      (reason: unknown) => reason,
    );
    if (error instanceof OptionsError) return error.problems;
    throw error;
  };
  beforeEach(() => void jest.spyOn(Logger.prototype, "error").mockImplementation(() => {}));

  it("has the metrics of the app beside others, under the prefix, until it closes", async () => {
    const registry = new Registry();
    new Gauge({ name: "of_the_app", help: "Not ours.", registers: [registry] }).set(7);
    await onlooker({ registry, prefix: "shop_" });
    const names = () => registry.getMetricsAsArray().map(({ name }) => name);
    expect(names()).toContain("shop_events_total");
    expect(names().filter((name) => !name.startsWith("shop_"))).toEqual(["of_the_app"]);
    expect(new Scraped(await registry.metrics()).value("of_the_app")).toBe(7);
    await bench.closeApps();
    expect(names()).toEqual(["of_the_app"]);
    // The next app of this process can have it.
    await onlooker({ registry, prefix: "shop_" });
    expect(names()).toContain("shop_events_total");
  });

  it("is refused when it has them already", async () => {
    const registry = new Registry();
    await onlooker({ registry });
    const names = registry.getMetricsAsArray().length;
    expect(await problems(() => onlooker({ registry }))).toEqual([
      expect.stringMatching(/^registry: expected one without jobs_events_total, found one/),
    ]);
    expect(registry.getMetricsAsArray()).toHaveLength(names);
    const other = new Registry();
    const both = [metrics({ registry: other }), metrics({ registry: other })];
    expect(await problems(() => bench.app([bench.root(), ...both]))).toEqual([
      expect.stringContaining("once in an app"),
    ]);
  });

  it("is told what is missing: JobsModule.forRoot", async () => {
    @Module({ imports: [metrics()] })
    class Alone {}
    const boot = () =>
      NestFactory.createApplicationContext(Alone, { logger: false, abortOnError: false });
    expect(await problems(boot)).toEqual([
      expect.stringMatching(/^JobsModule\.forRoot: expected in the same app, found none/),
    ]);
  });

  it("with a metric of the app's own that cannot be read: 500, and it answers again", async () => {
    const registry = new Registry();
    const app = await onlooker({ registry, database: false });
    const health = await serveHealth({ port: 0, host: "127.0.0.1" }, [], app.get(JobsMetrics));
    const get = async () => {
      const response = await fetch(`http://127.0.0.1:${health.port}/metrics`);
      return [response.status, await response.text()] as const;
    };
    try {
      const collect = () => {
        throw new Error("the cache is cold");
      };
      new Gauge({ name: "of_the_app", help: "Not ours.", registers: [registry], collect });
      expect(await get()).toEqual([500, "a metric cannot be read: the cache is cold\n"]);
      registry.removeSingleMetric("of_the_app");
      expect(await get()).toEqual([200, expect.stringContaining("jobs_connections_limit 10")]);
    } finally {
      await health.close();
    }
  });

  it("counts to the end of the drain", async () => {
    const registry = new Registry();
    const gate = new Gate();
    const app = await worker([handler("held", () => gate.opened)], { registry });
    const { id } = await app.get(JobQueue).enqueue("held");
    await reached(bench, id, "running");
    const events = registry.getSingleMetric("jobs_events_total")!;
    const { worker: draining } = app.get(JobsWorkerModule, { strict: false });
    const closing = bench.closeApps();
    await until(() => draining!.state === "draining", { what: "it drains" });
    gate.open();
    await closing;
    expect((await events.get()).values).toContainEqual({
      labels: {
        event: "succeeded",
        kind: "held",
        queue: "default",
        schema: bench.schema,
        state: "succeeded",
      },
      value: 1,
    });
  });
});

(promtool ? describe : describe.skip)(
  "promtool (skipped where it is not installed: apt-get install prometheus)",
  () => {
    it("finds nothing to say of names, types and helps", async () => {
      const app = await worker([
        handler("works", () => "done"),
        handler("fails", () => Promise.reject(new Error("no use")), { attempts: 1 }),
      ]);
      const jobs = app.get(JobQueue);
      await reached(bench, (await jobs.enqueue("works")).id, "succeeded");
      await reached(bench, (await jobs.enqueue("fails")).id, "dead");
      await jobs.enqueue('"\\odd\\" name', {}, { queue: '{a="b"}' });
      const text = await app.get(JobsMetrics).text();
      expect(runPromtool(["check", "metrics"], text)).toEqual({ status: 0, output: "" });
      expect(new Scraped(text).types.size).toBeGreaterThan(20);
      // It would have said something.
      expect(runPromtool(["check", "metrics"], "# TYPE seen counter\nseen 1\n").status).not.toBe(0);
    });
  },
);
