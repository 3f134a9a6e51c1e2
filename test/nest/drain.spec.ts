import { jest } from "@jest/globals";
import { type INestApplicationContext, Logger } from "@nestjs/common";
import {
  Events,
  JobQueue,
  JobsModule,
  ShutdownError,
  type WorkerOptions,
  fixed,
} from "nestjs-pg-jobs";
import { awake } from "../support/awake.js";
import { Bench, feature } from "../support/harness.js";
import { Gate, handler, reached, row } from "../support/handlers.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

describe("drain", () => {
  let bench: Bench;
  let proxy: TcpProxy;
  let hung: Gate;
  beforeEach(async () => {
    bench = await Bench.open();
    proxy = await TcpProxy.start(bench.url);
    hung = new Gate();
  });
  afterEach(async () => {
    hung.open();
    await bench.close();
    await proxy.close();
  });

  /** A worker behind the proxy. */
  const worker = async (
    providers: Parameters<typeof feature>[0],
    options: Partial<WorkerOptions>,
  ) =>
    await bench.app([
      bench.root({ connection: { url: proxy.url(bench.url) } }),
      JobsModule.forWorker({ imports: [feature(providers)], ...options }),
    ]);
  /** A job whose body has begun: its claim is in the table before the worker knows of it. */
  const run = async (app: INestApplicationContext, kind: string) => {
    const begun = new Set<string>();
    app.get(Events).on(["started"], (event) => begun.add(event.id));
    const { id } = await app.get(JobQueue).enqueue(kind);
    await until(() => begun.has(id), { what: `${kind} runs` });
    return id;
  };

  it("grace over: the signal aborts, and the job is handed back without spending an attempt", async () => {
    const reasons: unknown[] = [];
    const app = await worker(
      [
        handler("heeds", (_payload, { signal }) => {
          return new Promise((_, reject) => {
            signal.addEventListener("abort", () => {
              reasons.push(signal.reason);
              reject(signal.reason as Error);
            });
          });
        }),
        handler("hangs", () => hung.opened),
      ],
      { grace: "300ms" },
    );
    const ids = [await run(app, "heeds"), await run(app, "hangs")];
    const from = performance.now();
    expect(await awake(app.close())).toBeLessThan(300 + 5_000);
    expect(performance.now() - from).toBeGreaterThan(299);
    expect(reasons).toEqual([expect.any(ShutdownError)]);
    for (const id of ids) {
      expect(await row(bench, id)).toMatchObject({ state: "queued", attempt: 1, failures: 0 });
    }
    // Whoever comes next can run it at once; what the hung body still does changes nothing.
    await bench.worker([handler("hangs", () => "second"), handler("heeds", () => "second")]);
    for (const id of ids)
      expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 2, result: "second" });
    hung.open();
    expect((await row(bench, ids[1]!)).result).toBe("second");
  });

  it("a body that ends within the grace period is settled; nothing new is claimed meanwhile", async () => {
    const app = await worker([handler("slow", () => hung.opened.then(() => "done"))], {
      grace: "10s",
      queues: { default: { concurrency: 2, prefetch: 0 } },
      poll: "100ms",
    });
    const jobs = await bench.producer();
    const id = await run(app, "slow");
    const closing = app.close();
    const { id: late } = await jobs.enqueue("slow");
    const look = await bench.sql<{ now: string }>("select now() + interval '300 ms' as now");
    await until(
      async () => (await bench.sql("select 1 where now() > $1", [look[0]!.now])).length === 1,
      { what: "three polls have passed" },
    );
    hung.open();
    await closing;
    expect(await row(bench, id)).toMatchObject({ state: "succeeded", result: "done" });
    expect(await row(bench, late)).toMatchObject({ state: "queued", attempt: 0 });
  });

  it.each([
    { what: "idle", kind: undefined },
    { what: "a body that has ended", kind: "ends" },
    { what: "a body that hangs", kind: "hangs" },
  ])(
    "the database does not answer ($what): closed within grace + 5 s all the same",
    async ({ kind }) => {
      const app = await worker(
        [
          handler("ends", (_payload, { signal }) => {
            return new Promise((resolve) => signal.addEventListener("abort", () => resolve(1)));
          }),
          handler("hangs", () => hung.opened),
        ],
        { grace: "500ms" },
      );
      await run(app, "hangs");
      hung.open();
      await until(async () => (await bench.states()).succeeded === 1, { what: "it is settled" });
      hung = new Gate();
      if (kind) await run(app, kind);
      proxy.setMode("blackhole");
      expect(await awake(app.close())).toBeLessThan(500 + 5_000);
    },
  );

  describe("what is said of bodies that go on", () => {
    const STILL = "Handlers still run after the grace period";
    const UNWRITTEN =
      "What became of jobs could not be written: they run again once their leases are over";
    let said: jest.Spied<Logger["error"]>;
    beforeEach(
      () => void (said = jest.spyOn(Logger.prototype, "error").mockImplementation(() => {})),
    );
    afterEach(() => said.mockRestore());

    it("one was handed back, one had failed before by its timeout", async () => {
      const app = await worker(
        [
          handler("hangs", () => hung.opened),
          handler("overdue", () => hung.opened, { timeout: "100ms", backoff: fixed("1h") }),
        ],
        { grace: "300ms" },
      );
      const overdue = await run(app, "overdue");
      expect(await reached(bench, overdue, "queued")).toMatchObject({ failures: 1 });
      const hangs = await run(app, "hangs");
      await app.close();
      expect(said.mock.calls).toEqual([
        [STILL, { running: 2, handedBack: 1, overdue: 1, lost: 0 }],
      ]);
      expect(await row(bench, hangs)).toMatchObject({ state: "queued", failures: 0 });
    });

    it("the database does not answer: nothing was handed back", async () => {
      const app = await worker([handler("hangs", () => hung.opened)], { grace: "300ms" });
      const id = await run(app, "hangs");
      proxy.setMode("blackhole");
      await app.close();
      await app.close();
      expect(said.mock.calls).toEqual([
        [STILL, { running: 1, handedBack: 0, overdue: 0, lost: 0 }],
        [UNWRITTEN, { jobs: 1 }],
      ]);
      expect(await row(bench, id)).toMatchObject({ state: "running", attempt: 1 });
    });

    it("everything is settled: nothing", async () => {
      const app = await worker([handler("ends", () => {})], {});
      const { id } = await app.get(JobQueue).enqueue("ends");
      await reached(bench, id, "succeeded");
      await app.close();
      expect(said.mock.calls).toEqual([]);
    });
  });

  it("the database was never there: closed at once, and nothing connects afterwards", async () => {
    proxy.setMode("blackhole");
    const app = await worker([handler("any", () => {})], { grace: "10s" });
    expect(await awake(app.close())).toBeLessThan(5_000);
    proxy.setMode("pass");
    await until(() => proxy.connections === 0, { what: "nobody is connected" });
  });

  it("closing twice, and closing an app that never started its worker, is harmless", async () => {
    const app = await worker([handler("any", () => {})], {});
    await Promise.all([app.close(), app.close()]);
    await app.close();
    await bench
      .app([bench.root({ schema: "Not-A-Schema" }), JobsModule.forWorker({ imports: [] })])
      .catch(() => undefined);
    expect(await bench.states()).toEqual({});
  });
});
