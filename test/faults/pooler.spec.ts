import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import {
  DatabaseUnavailableError,
  EnqueueOutcomeUnknownError,
  type JobQueue,
} from "nestjs-pg-jobs";
import { type Pgbouncer, pgbouncer, startPgbouncer } from "../../tools/pgbouncer.mjs";
import { type PostgresServer, startPostgres } from "../../tools/postgres.mjs";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const RESUMES_MS = 30_000;

// Workers and callers know nothing but the pooler: no direct way to LISTEN either.
(pgbouncer ? describe : describe.skip)("a transaction pooler of two connections", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "jobs-pooler-"));
  let server: PostgresServer;
  let bench: Bench;
  let log: TransitionLog;
  let pooler: Pgbouncer;
  let url: string;
  let ledger: Ledger;
  let workers: WorkerProcess[] = [];
  let jobs: JobQueue;
  let callers: Promise<void>[] = [];
  let stopped = false;
  const acknowledged: string[] = [];
  const unknown: string[] = [];
  const unexpected: unknown[] = [];

  const startServer = async (port?: number) =>
    (server = await startPostgres({
      dataDir: path.join(folder, "pg"),
      durable: true,
      // What is committed asynchronously, as claims are, stays in memory unless somebody else flushes it.
      settings: { wal_writer_delay: "10s" },
      ...(port === undefined ? {} : { port }),
    }));

  async function call(): Promise<void> {
    while (!stopped) {
      const next = performance.now() + 10;
      try {
        acknowledged.push((await jobs.enqueue("task", { do: "sleep", ms: 20 })).id);
      } catch (error) {
        if (error instanceof EnqueueOutcomeUnknownError) unknown.push(...error.ids);
        else if (!(error instanceof DatabaseUnavailableError)) unexpected.push(error);
      }
      await until(() => performance.now() >= next, { every: 2 });
    }
  }

  beforeAll(async () => {
    await startServer();
    bench = await Bench.open({ url: server.url() });
    log = await TransitionLog.install(bench);
    pooler = await startPgbouncer({ url: bench.direct });
    url = pooler.url();
    ledger = new Ledger();
    workers = await WorkerProcess.startAll(2, {
      url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 20, prefetch: 20 } },
    });
    jobs = await bench.producer({ connection: { url } });
    load();
    await until(() => ledger.starts().length > 100, { timeout: 40_000, what: "jobs are flowing" });
  }, 120_000);
  afterAll(async () => {
    stopped = true;
    await Promise.all(callers);
    await Promise.all(workers.map((worker) => worker.end()));
    await pooler.stop();
    await bench.close();
    await server.stop();
    ledger.remove();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }, 120_000);

  function load(): void {
    stopped = false;
    callers = [1, 2, 3, 4].map(() => call());
  }

  /** Every worker starts jobs that were enqueued since. */
  async function flowsAgain(): Promise<void> {
    const known = acknowledged.length;
    const lines = ledger.lines().length;
    const all = () => {
      const fresh = new Set(acknowledged.slice(known));
      const pids = ledger
        .lines()
        .slice(lines)
        .flatMap(({ id, pid, what }) => (what === "start" && fresh.has(id) ? [pid] : []));
      return workers.every(({ pid }) => pids.includes(pid));
    };
    await until(all, { timeout: RESUMES_MS, every: 100, what: "all workers start new jobs" });
    expect(workers.map(({ over }) => over)).toEqual([false, false]);
  }

  it("killed under load: work goes on through the next one", async () => {
    const { pid } = pooler;
    await pooler.end("SIGKILL");
    await pooler.start();
    expect(pooler.pid).not.toBe(pid);
    await flowsAgain();
  }, 90_000);

  it("told to connect anew, and ended in good order: the same", async () => {
    const admin = new pg.Client(pooler.url("pgbouncer"));
    await admin.connect();
    await admin.query("RECONNECT");
    await admin.end();
    await flowsAgain();
    const { pid } = pooler;
    await pooler.end("SIGTERM");
    await pooler.start();
    expect(pooler.pid).not.toBe(pid);
    await flowsAgain();
  }, 120_000);

  /** Each job was done, by the view and by the ledger. */
  async function ends(serverCrashed: boolean): Promise<void> {
    stopped = true;
    await Promise.all(callers);
    await until(
      async () => {
        const { queued = 0, running = 0 } = await bench.states();
        return queued + running === 0;
      },
      { timeout: 60_000, every: 100, what: "all jobs are over" },
    );
    const done = (
      await bench.sql<{ id: string }>("select queue_id || '-' || id as id from jobs.done")
    )
      .map(({ id }) => id)
      .toSorted();
    expect(new Set(done).size).toBe(done.length);
    expect(await bench.states()).toEqual({ succeeded: done.length });
    const mayBe = new Set(unknown);
    expect(done.filter((id) => !mayBe.has(id))).toEqual(acknowledged.toSorted());
    expect([...ledger.startsById().keys()].toSorted()).toEqual(done);
    expect(await violations(bench, { log, ledger, acknowledged, serverCrashed })).toEqual([]);
  }

  it("each job was done once", async () => {
    await ends(false);
    expect(unexpected).toEqual([]);
  }, 90_000);

  it("a server that crashes behind it: work goes on, and nothing is lost or settled twice", async () => {
    load();
    for (let round = 0; round < 2; round++) {
      await flowsAgain();
      const { port } = server;
      await server.stop({ mode: "immediate" });
      await startServer(port);
    }
    await flowsAgain();
    await ends(true);
    expect(unexpected).toEqual([]);
  }, 240_000);

  it("a claim that a hidden crash has forgotten is never given out again under the same fence", async () => {
    const [one, other] = workers as [WorkerProcess, WorkerProcess];
    other.stop();
    const { id } = await jobs.enqueue("task", { do: "gate" });
    await one.atGate(id);
    const row = "queue_id || '-' || id = $1";
    // What the server knows after it: the job has never been claimed.
    await bench.sql(
      `update jobs.job set attempt = 0, worker = null, lease_until = null, run_at = now() + '1 hour' where ${row}`,
      [id],
    );
    one.tell(id, "return");
    await until(() => one.heard("lost", id).length === 1, { what: "it is lost" });
    await bench.sql(`update jobs.job set run_at = now() where ${row}`, [id]);
    await until(() => ledger.starts(id).length === 2, { what: "it is started again" });
    one.tell(id, "return");
    await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
    other.cont();
    const fences = ledger.starts(id).map(({ attempt, worker }) => `${attempt} of ${worker}`);
    expect(new Set(fences).size).toBe(2);
  }, 90_000);

  it("and the processes are the same ones, said once why they poll, and drain", async () => {
    expect(await Promise.all(workers.map((worker) => worker.end()))).toEqual([0, 0]);
    for (const { output } of workers) {
      expect(output.match(/connection\.listenUrl/g)).toHaveLength(1);
      expect(output).not.toMatch(/unhandled|uncaught/i);
    }
  });
});
