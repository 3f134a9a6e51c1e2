import { connect } from "node:net";
import { once } from "node:events";
import { Bench } from "../support/harness.js";
import { reached, row } from "../support/handlers.js";
import { Role } from "../support/role.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { WorkerProcess } from "../support/run-worker-process.js";
import { until } from "../support/until.js";

/** What a busy machine adds to what is promised, the start of a process and its end: far less than for ever. */
const SLACK_MS = 10_000;

describe("runWorker, as a process of its own", () => {
  let bench: Bench;
  let worker: WorkerProcess | undefined;
  beforeEach(async () => void (bench = await Bench.open()));
  afterEach(async () => {
    worker?.kill("SIGKILL");
    await worker?.exit();
    worker = undefined;
    await bench.close();
  });

  const start = (fixture = {}): WorkerProcess =>
    (worker = new WorkerProcess({ url: bench.url, schema: bench.schema, ...fixture }));

  it("SIGTERM: drains, and ends with 0; a second one changes nothing", async () => {
    const worker = start();
    await worker.answers("readyz", 200);
    const jobs = await bench.producer();
    const { id } = await jobs.enqueue("slow");
    await worker.begins("slow");
    worker.kill("SIGTERM");
    await worker.answers("readyz", 503);
    expect(await worker.probe("livez")).toBe(200);
    worker.kill("SIGTERM");
    worker.kill("SIGINT");
    expect(await worker.probe("livez")).toBe(200);
    worker.kill("SIGHUP");
    expect(await worker.exit()).toBe(0);
    expect(await row(bench, id)).toMatchObject({ state: "succeeded", result: "done", attempt: 1 });
  });

  it("a body that hangs: ends with 70 within grace + 5 s, the job handed back", async () => {
    const worker = start({ grace: "500ms" });
    await worker.answers("readyz", 200);
    const { id } = await (await bench.producer()).enqueue("hung");
    await worker.begins("hung");
    const from = performance.now();
    worker.kill("SIGTERM");
    expect(await worker.exit()).toBe(70);
    expect(performance.now() - from).toBeLessThan(500 + 5_000 + SLACK_MS);
    expect(await row(bench, id)).toMatchObject({ state: "queued", attempt: 1, failures: 0 });
  });

  it("a body hangs and the database is away: ends with 70 within grace + 5 s", async () => {
    const proxy = await TcpProxy.start(bench.url);
    try {
      const worker = start({ url: proxy.url(bench.url), grace: "500ms" });
      await worker.answers("readyz", 200);
      await (await bench.producer()).enqueue("hung");
      await worker.begins("hung");
      proxy.setMode("blackhole");
      const from = performance.now();
      worker.kill("SIGTERM");
      expect(await worker.exit()).toBe(70);
      expect(performance.now() - from).toBeLessThan(500 + 5_000 + SLACK_MS);
    } finally {
      await proxy.close();
    }
  });

  describe("closed while the database does not answer: nothing is left to do or to say", () => {
    let proxy: TcpProxy;
    beforeEach(async () => void (proxy = await TcpProxy.start(bench.url)));
    afterEach(async () => await proxy.close());

    /** How many ms the process lives on after its close() has resolved. */
    async function afterlife(worker: WorkerProcess): Promise<number> {
      worker.kill("SIGUSR2");
      expect(await worker.exit()).toBe(0);
      const [, after] = worker.output.split(/^closed\n/m);
      expect(after).toMatch(/^exit \d+\n$/);
      return Number(after!.slice("exit ".length));
    }

    it.each(["hung", "brief", undefined])("a body that is %s", async (kind) => {
      const worker = start({ url: proxy.url(bench.url), grace: "500ms" });
      await worker.answers("readyz", 200);
      if (kind) {
        await (await bench.producer()).enqueue(kind);
        await worker.begins(kind);
      }
      proxy.setMode("reset");
      await until(() => proxy.connections === 0, { what: "all is lost" });
      proxy.setMode("blackhole");
      await until(() => proxy.connections >= 2, { what: "it connects again" });
      expect(await afterlife(worker)).toBeLessThan(300);
    });

    it("it was never there", async () => {
      proxy.setMode("blackhole");
      const worker = start({ url: proxy.url(bench.url) });
      await worker.port();
      await until(() => proxy.connections >= 1, { what: "it connects" });
      expect(await afterlife(worker)).toBeLessThan(300);
    });
  });

  it("wrong options: ends with 1, says all that is wrong, and shows no stack", async () => {
    const worker = start({ root: { schemma: "x", connections: 0 } });
    expect(await worker.exit()).toBe(1);
    expect(worker.output).toContain("schemma: unknown option, did you mean schema?");
    expect(worker.output).toContain("connections: expected an integer 1..100, found 0");
    expect(worker.output).not.toMatch(/^ +at /m);
    // Once is enough.
    expect(worker.output.split("schemma").length).toBe(2);
  });

  it("wrong options of runWorker: ends with 1 before anything is opened, and shows no stack", async () => {
    const worker = start({ options: { helth: {}, health: { port: "8081x" } } });
    expect(await worker.exit()).toBe(1);
    expect(worker.output).toContain("helth: unknown option, did you mean health?");
    expect(worker.output).toContain('health.port: expected an integer 0..65535, found "8081x"');
    expect(worker.output).not.toMatch(/^ +at |Starting Nest/m);
  });

  it("what is found out in a lifecycle hook is told too, of which Nest says nothing", async () => {
    const worker = start({ root: { connections: 2 } });
    expect(await worker.exit()).toBe(1);
    expect(worker.output).toContain("connections: expected at least 5 for a worker, found 2");
    expect(worker.output).not.toMatch(/^ +at /m);
  });

  it("a hook that throws when jobs run already: ends with 1, and drops none of them", async () => {
    const jobs = await bench.producer();
    const { id: brief } = await jobs.enqueue("brief");
    const { id: hung } = await jobs.enqueue("hung");
    const worker = start({ bootFails: true, grace: "2s" });
    expect(await worker.exit()).toBe(1);
    expect(worker.output).toContain("the cache cannot be warmed");
    expect(await row(bench, brief)).toMatchObject({ state: "succeeded", attempt: 1 });
    expect(await row(bench, hung)).toMatchObject({ state: "queued", attempt: 1, failures: 0 });
  });

  it("SIGTERM while it boots, and jobs run already: drains, and drops none of them", async () => {
    const jobs = await bench.producer();
    const { id: brief } = await jobs.enqueue("brief");
    const { id: hung } = await jobs.enqueue("hung");
    const worker = start({ bootHangs: true, grace: "1s" });
    await worker.begins("brief");
    await worker.begins("hung");
    worker.kill("SIGTERM");
    worker.kill("SIGTERM");
    expect(await worker.exit()).toBe(70);
    expect(await row(bench, brief)).toMatchObject({ state: "succeeded", attempt: 1 });
    expect(await row(bench, hung)).toMatchObject({ state: "queued", attempt: 1, failures: 0 });
  });

  it("without the database: alive, not ready; then ready, and it works", async () => {
    const proxy = await TcpProxy.start(bench.url);
    try {
      proxy.setMode("reset");
      const worker = start({ url: proxy.url(bench.url) });
      expect(await worker.probe("livez")).toBe(200);
      expect(await worker.probe("readyz")).toBe(503);
      const { id } = await (await bench.producer()).enqueue("quick");
      proxy.setMode("pass");
      await worker.answers("readyz", 200);
      await reached(bench, id, "succeeded");
      proxy.setMode("reset");
      // A database that is away is no reason to be restarted.
      await worker.answers("readyz", 503);
      expect(await worker.probe("livez")).toBe(200);
      proxy.setMode("pass");
      await worker.answers("readyz", 200);
    } finally {
      await proxy.close();
    }
  });

  it("SIGTERM while close() is under way: ends within grace + 5 s, though a hook hangs", async () => {
    const worker = start({ grace: "500ms", closeHangs: true });
    await worker.answers("readyz", 200);
    worker.kill("SIGUSR2");
    await worker.answers("readyz", 503);
    const from = performance.now();
    worker.kill("SIGTERM");
    expect(await worker.exit()).toBe(70);
    expect(performance.now() - from).toBeLessThan(500 + 5_000 + SLACK_MS);
  });

  it("SIGTERM after close(): ends a process that something else keeps alive", async () => {
    const worker = start({ staysAlive: true });
    await worker.answers("readyz", 200);
    worker.kill("SIGUSR2");
    await until(() => /^closed/m.test(worker.output), { what: "it is closed" });
    worker.kill("SIGTERM");
    // By the signal itself: nobody listens any more.
    expect(await worker.exit()).toBeNull();
  });

  it("no connection left to settle on: says so, is not ready, and goes on by itself", async () => {
    // Enough for the way in, for hints and for claims.
    const role = await Role.create(bench);
    try {
      await role.grantAll();
      await role.limit(3);
      const worker = start({ url: role.url });
      await worker.answers("readyz", 200);
      const connections = async () =>
        (await bench.sql("select from pg_stat_activity where usename = $1", [role.name])).length;
      await until(async () => (await connections()) === 3, {
        what: "all that it may open are open",
      });
      const { id } = await (await bench.producer()).enqueue("quick");
      await worker.answers("readyz", 503, 40_000);
      expect(worker.output).toMatch(/settling fails and is tried again/);
      expect(worker.output).toMatch(/too many connections for role/);
      expect(await bench.state(id)).toBe("running");
      await role.limit(20);
      await reached(bench, id, "succeeded");
      await worker.answers("readyz", 200);
      worker.kill("SIGTERM");
      expect(await worker.exit()).toBe(0);
    } finally {
      worker?.kill("SIGKILL");
      await worker?.exit();
      await role.drop();
    }
  }, 120_000);

  it("without the schema: not ready, says so, and goes on by itself once it is there", async () => {
    await bench.close();
    bench = await Bench.open({ migrated: false });
    const worker = start();
    expect(await worker.probe("readyz")).toBe(503);
    expect(await worker.probe("livez")).toBe(200);
    await until(() => worker.output.includes("pg-jobs migrate"), { what: "it says so" });
    await bench.migrate();
    await worker.answers("readyz", 200);
    const { id } = await (await bench.producer()).enqueue("quick");
    await reached(bench, id, "succeeded");
  });

  it("a probe that is no URL does not end the process", async () => {
    const worker = start();
    for (const path of ["//", "//:", "/livez?x=1", "/nothing"]) {
      const socket = connect(await worker.port(), "127.0.0.1");
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      const [answer] = (await once(socket, "data")) as [Buffer];
      expect(String(answer)).toMatch(path === "/livez?x=1" ? /^HTTP\/1.1 200/ : /^HTTP\/1.1 404/);
      socket.destroy();
    }
    expect(await worker.probe("livez")).toBe(200);
  });
});
