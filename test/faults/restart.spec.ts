import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  DatabaseUnavailableError,
  EnqueueOutcomeUnknownError,
  type JobQueue,
} from "nestjs-pg-jobs";
import pg from "pg";
import { type PostgresServer, startPostgres } from "../../tools/postgres.mjs";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const RESUMES_MS = 30_000;

/** Callers that never stop, and what they were told. */
class Load {
  readonly acknowledged: string[] = [];
  readonly unknown: string[] = [];
  refused = 0;
  readonly unexpected: unknown[] = [];
  #stopped = true;
  #callers: Promise<void>[] = [];

  constructor(private readonly jobs: JobQueue) {}

  start(): void {
    this.#stopped = false;
    this.#callers = Array.from({ length: 4 }, () => this.#call());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#callers);
  }

  async #call(): Promise<void> {
    while (!this.#stopped) {
      const next = performance.now() + 5;
      try {
        this.acknowledged.push((await this.jobs.enqueue("task", { do: "sleep", ms: 50 })).id);
      } catch (error) {
        if (error instanceof EnqueueOutcomeUnknownError) this.unknown.push(...error.ids);
        else if (error instanceof DatabaseUnavailableError) this.refused++;
        else this.unexpected.push(error);
      }
      await until(() => performance.now() >= next, { every: 2 });
    }
  }
}

describe("a database that goes away under load", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "jobs-restart-"));
  let server: PostgresServer;
  let bench: Bench;
  let log: TransitionLog;
  let ledger: Ledger;
  let workers: WorkerProcess[] = [];
  let jobs: JobQueue;
  let load: Load;

  const gates: string[] = [];
  /** All of them may be claimed by one worker, each time anew, and are to run there. */
  const PER_CRASH = 5;

  const startServer = async (port?: number) =>
    (server = await startPostgres({
      dataDir: path.join(folder, "pg"),
      durable: true,
      // What is committed asynchronously, as claims are, stays in memory unless somebody else flushes it.
      settings: { wal_writer_delay: "10s" },
      ...(port === undefined ? {} : { port }),
    }));

  beforeAll(async () => {
    await startServer();
    bench = await Bench.open({ url: server.url() });
    log = await TransitionLog.install(bench);
    ledger = new Ledger();
    workers = await WorkerProcess.startAll(2, {
      url: bench.url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 20, prefetch: 20 } },
      lease: "2s",
    });
    jobs = await bench.producer();
    load = new Load(jobs);
    load.start();
    await until(() => ledger.starts().length > 100, { what: "jobs are flowing" });
  }, 120_000);
  afterAll(async () => {
    await load.stop();
    await Promise.all(workers.map((worker) => worker.end()));
    await bench.close();
    await server.stop();
    ledger.remove();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }, 120_000);

  /** Every worker starts jobs again that were enqueued since. */
  async function flowsAgain(): Promise<void> {
    const known = load.acknowledged.length;
    const started = ledger.lines().length;
    await until(
      () => {
        const fresh = new Set(load.acknowledged.slice(known));
        const pids = new Set(
          ledger
            .lines()
            .slice(started)
            .flatMap(({ id, pid, what }) => (what === "start" && fresh.has(id) ? [pid] : [])),
        );
        return workers.every(({ pid }) => pids.has(pid));
      },
      { timeout: RESUMES_MS, every: 100, what: "all workers start new jobs" },
    );
    expect(workers.map(({ over }) => over)).toEqual([false, false]);
  }

  /** Answers how many claims of jobs that run were forgotten. */
  async function crashAfterClaims(): Promise<number> {
    // By the timers of the workers: a hint would be a commit that waits for the disk.
    const made = await jobs.enqueueMany(
      "task",
      Array.from({ length: PER_CRASH }, () => ({ do: "gate" })),
      { delay: "700ms" },
    );
    const ids = made.map(({ id }) => id);
    gates.push(...ids);
    const started = () => ids.every((id) => ledger.starts(id).length > 0);
    await until(started, { every: 2, what: "all have been started" });
    const { port } = server;
    await server.stop({ mode: "immediate" });
    await startServer(port);
    const seen = ledger.starts().filter(({ id }) => ids.includes(id));
    const { transitions } = await until(() => log.read(), { what: "the log can be read" });
    const claimed = new Set(
      transitions
        .filter(({ step }) => step === "claim")
        .map(({ id, after }) => `${id} ${after!.worker}`),
    );
    return seen.filter(({ id, worker }) => !claimed.has(`${id} ${worker}`)).length;
  }

  it.each(["fast", "immediate"] as const)(
    "goes on after a %s shutdown",
    async (mode) => {
      const { port, pid } = server;
      await server.stop({ mode });
      const down = performance.now();
      await until(() => performance.now() - down >= 2_000, { what: "it is away for 2 s" });
      await startServer(port);
      expect(server.pid).not.toBe(pid);
      await flowsAgain();
    },
    90_000,
  );

  it("may forget claims in a crash: their bodies go on, or are told that they are lost", async () => {
    await load.stop();
    await until(async () => ((await bench.states()).queued ?? 0) === 0, {
      timeout: 60_000,
      every: 100,
      what: "the queue is empty",
    });
    // A commit that waits for the disk would take the claims along, such as one that sums up the counters.
    let forgotten = 0;
    for (let round = 1; forgotten === 0 && round <= 4; round++)
      forgotten = await crashAfterClaims();
    expect(forgotten).toBeGreaterThan(0);
    await until(async () => (await bench.states()).running === gates.length, {
      timeout: RESUMES_MS,
      what: "all of them are claimed",
    });
    for (const id of gates) for (const worker of workers) worker.tell(id, "return");
    for (const id of gates)
      await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
    // No process has started a job that it held.
    const starts = ledger.starts().filter(({ id }) => gates.includes(id));
    expect(new Set(starts.map(({ id, pid }) => `${id} ${pid}`)).size).toBe(starts.length);
    load.start();
  }, 240_000);

  it("goes on when every connection is terminated again and again", async () => {
    const client = new pg.Client(server.url());
    await client.connect();
    let terminated = 0;
    try {
      const end = performance.now() + 3_000;
      while (performance.now() < end || (terminated <= 30 && performance.now() < end + 20_000)) {
        const next = performance.now() + 200;
        const { rowCount } = await client.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'pg-jobs %'",
        );
        terminated += rowCount ?? 0;
        await until(() => performance.now() >= next);
      }
    } finally {
      await client.end();
    }
    // Two workers and a producer: they came back to be terminated.
    expect(terminated).toBeGreaterThan(30);
    await flowsAgain();
  }, 90_000);

  it("and nothing that was acknowledged is lost, or settled twice", async () => {
    await load.stop();
    expect(load.unexpected).toEqual([]);
    await until(
      async () => {
        const { queued = 0, running = 0 } = await bench.states();
        return queued + running === 0;
      },
      { timeout: 60_000, every: 100, what: "all jobs are over" },
    );
    const { succeeded } = await bench.states();
    expect(await bench.states()).toEqual({ succeeded });
    const all = load.acknowledged.length + gates.length;
    // What was refused left nothing behind; what is unknown may be there or not.
    expect(succeeded).toBeGreaterThanOrEqual(all);
    expect(succeeded).toBeLessThanOrEqual(all + load.unknown.length);
    expect(
      await violations(bench, {
        log,
        ledger,
        acknowledged: [...load.acknowledged, ...gates],
        serverCrashed: true,
      }),
    ).toEqual([]);
  }, 90_000);

  it("and only what somebody else has started is lost", () => {
    const starts = ledger.startsById();
    for (const worker of workers)
      for (const { id } of worker.heard("lost"))
        expect([id, starts.get(id)! > 1]).toEqual([id, true]);
  });

  it("and the processes are the same ones, and drain", async () => {
    expect(await Promise.all(workers.map((worker) => worker.end()))).toEqual([0, 0]);
    for (const { output } of workers) expect(output).not.toMatch(/unhandled|uncaught/i);
  });
});
