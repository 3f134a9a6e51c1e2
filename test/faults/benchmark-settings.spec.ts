import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { SETTINGS } from "../../bench/machine/settings.mjs";
import { type PostgresServer, startPostgres } from "../../tools/postgres.mjs";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const JOBS = 20_000;
const LIST = 1_000;
/** Of the benchmark's worker. */
const SLOTS = { concurrency: 600, prefetch: 400 };
const HELD = SLOTS.concurrency + SLOTS.prefetch;
const LEASE = "2s";

describe("the settings of the benchmark, and everything that can go wrong at once", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "jobs-benchmark-"));
  let server: PostgresServer;
  let bench: Bench;
  let log: TransitionLog;
  let ledger: Ledger;
  let workers: WorkerProcess[] = [];

  const startServer = async (port?: number) =>
    (server = await startPostgres({
      dataDir: path.join(folder, "pg"),
      durable: true,
      settings: SETTINGS,
      ...(port === undefined ? {} : { port }),
    }));

  beforeAll(async () => {
    await startServer();
    bench = await Bench.open({ url: server.url() });
    log = await TransitionLog.install(bench);
    ledger = new Ledger();
    workers = await WorkerProcess.startAll(3, {
      url: bench.url,
      schema: bench.schema,
      ledger,
      queues: { default: SLOTS },
      lease: LEASE,
    });
  }, 120_000);
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.end()));
    await bench.close();
    await server.stop();
    ledger.remove();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }, 120_000);

  const startedBy = (pid: number) => ledger.starts().filter((line) => line.pid === pid);

  it("are those that its own worker has", () => {
    const ours = readFileSync(
      path.resolve(import.meta.dirname, "../../bench/peers/ours.mjs"),
      "utf8",
    );
    const { concurrency, prefetch } = SLOTS;
    expect(ours).toContain(`{ concurrency: ${concurrency}, prefetch: ${prefetch} }`);
  });

  it("a kill, a freeze and a crash of the server lose nothing, and nothing is settled twice", async () => {
    const [killed, frozen, steady] = workers as [WorkerProcess, WorkerProcess, WorkerProcess];
    const jobs = await bench.producer();
    const ids: string[] = [];
    const enqueue = async (count: number, ms: number) => {
      for (let made = 0; made < count; made += LIST) {
        const list = Array.from({ length: LIST }, () => ({ do: "sleep", ms }) as const);
        ids.push(...(await jobs.enqueueMany("task", list)).map(({ id }) => id));
      }
    };

    // Enough that all of them are busy for some seconds.
    await enqueue(JOBS / 2, 500);
    await until(() => workers.every(({ pid }) => startedBy(pid).length > 0), {
      every: 50,
      what: "all of them work",
    });
    frozen.stop();
    killed.kill();
    expect(await killed.exit()).toBe("SIGKILL");
    const { port } = server;
    await server.stop({ mode: "immediate" });
    await startServer(port);
    const before = startedBy(steady.pid).length;
    await enqueue(JOBS / 2, 50);
    await until(() => startedBy(steady.pid).length > before + HELD, {
      timeout: 30_000,
      every: 50,
      what: "it goes on",
    });
    const own = startedBy(steady.pid).map((line) => line.worker);
    const left = await bench.sql<{ n: number }>(
      `select count(*)::int as n from jobs.job
       where lease_until is not null and worker <> all($1::integer[]) group by worker`,
      [[...new Set(own)]],
    );
    expect(left).toHaveLength(2);
    // It takes over what was left behind once it has been connected for some time.
    const held = left.reduce((sum, { n }) => sum + n, 0);
    await until(() => steady.heard("rescued").length >= held, {
      timeout: 30_000,
      every: 50,
      what: "it has taken over",
    });
    frozen.cont();
    await until(async () => (await bench.states()).succeeded === JOBS, {
      timeout: 60_000,
      every: 200,
      what: "all have succeeded",
    });

    const starts = ledger.startsById();
    expect(ids.filter((id) => !starts.has(id))).toEqual([]);
    const again = [...starts.values()].filter((times) => times > 1);
    expect(again.length).toBeGreaterThan(0);
    expect(again.length).toBeLessThanOrEqual(workers.length * HELD);
    // What it had under way when it was frozen is not its own any more.
    await until(() => frozen.heard("lost").length > 0, { what: "it is told so" });
    expect(
      await violations(bench, { log, ledger, acknowledged: ids, serverCrashed: true }),
    ).toEqual([]);
    expect(await Promise.all([frozen.end(), steady.end()])).toEqual([0, 0]);
  }, 150_000);
});
