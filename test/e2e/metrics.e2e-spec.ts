import { Bench } from "../support/harness.js";
import { reached } from "../support/handlers.js";
import { WorkerProcess } from "../support/run-worker-process.js";
import { ADMIN_TOKEN, SampleApps } from "../support/sample-apps.js";
import { Scraped } from "../support/scraped.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

// Where metrics are served: beside the probes of a worker, and by the admin app.

const TEXT = "text/plain; version=0.0.4; charset=utf-8";

let bench: Bench;
beforeAll(async () => void (bench = await Bench.open()));
afterAll(async () => await bench.close());

describe("/metrics of a worker that runWorker runs", () => {
  let worker: WorkerProcess | undefined;
  afterEach(async () => {
    worker?.kill("SIGKILL");
    await worker?.exit();
    worker = undefined;
  });

  const start = (fixture: object = {}): WorkerProcess =>
    (worker = new WorkerProcess({ url: bench.url, schema: bench.schema, ...fixture }));
  const get = async (of: WorkerProcess, name = "metrics") =>
    await fetch(`http://127.0.0.1:${await of.port()}/${name}`);

  it("is there with the module: what it did, as Prometheus reads it", async () => {
    const worker = start({ metrics: {} });
    await worker.answers("readyz", 200);
    const { id } = await (await bench.producer()).enqueue("quick");
    await reached(bench, id, "succeeded");
    const scraped = await until(
      async () => {
        const found = new Scraped(await (await get(worker)).text());
        return found.value("jobs_events_total", { event: "succeeded", kind: "quick" }) && found;
      },
      { what: "its end is counted" },
    );
    expect(scraped.value("jobs_events_total", { event: "succeeded", kind: "quick" })).toBe(1);
    expect(scraped.value("jobs_database_up")).toBe(1);
    expect(scraped.value("jobs_queue_workers", { queue: "default" })).toBe(1);
    const response = await get(worker, "metrics?x=1");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe(TEXT);
    expect(response.headers.get("cache-control")).toBe("no-store");
    await response.text();
  });

  it("is not found without it", async () => {
    const response = await get(start());
    expect([response.status, await response.json()]).toEqual([404, { status: "not found" }]);
  });

  it("answers 200 while the database is away, and says so", async () => {
    const proxy = await TcpProxy.start(bench.url);
    try {
      proxy.setMode("blackhole");
      const worker = start({ url: proxy.url(bench.url), metrics: {} });
      const from = performance.now();
      const response = await get(worker);
      expect(response.status).toBe(200);
      const scraped = new Scraped(await response.text());
      expect(scraped.value("jobs_database_up")).toBe(0);
      expect(scraped.value("jobs_slots")).toBe(10);
      // Its port is waited for too.
      expect(performance.now() - from).toBeLessThan(30_000);
      expect(await worker.probe("readyz")).toBe(503);
    } finally {
      await proxy.close();
    }
  });
});

describe("/metrics of the admin app", () => {
  let apps: SampleApps;
  let url: string;
  beforeAll(async () => {
    apps = new SampleApps(bench.schema);
    ({ url } = await apps.admin());
  });
  afterAll(async () => await apps.close());

  const get = async (authorization?: string) =>
    await fetch(`${url}/metrics`, { headers: authorization ? { authorization } : {} });

  it("asks for the token", async () => {
    expect((await get()).status).toBe(401);
    expect((await get("Bearer wrong")).status).toBe(403);
  });

  it("tells of the whole database", async () => {
    await (await bench.producer()).enqueue("far-away", {}, { queue: "far" });
    const response = await get(`Bearer ${ADMIN_TOKEN}`);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toMatch(/^text\/plain;.*version=0\.0\.4/);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const scraped = new Scraped(await response.text());
    expect(scraped.value("jobs_database_up")).toBe(1);
    expect(scraped.value("jobs_queue_backlog", { queue: "far" })).toBe(1);
    expect(scraped.value("jobs_queue_workers", { queue: "far" })).toBe(0);
  });
});
