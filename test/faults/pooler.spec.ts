import pg from "pg";
import {
  DatabaseUnavailableError,
  EnqueueOutcomeUnknownError,
  type JobQueue,
} from "nestjs-pg-jobs";
import { type Pgbouncer, pgbouncer, startPgbouncer } from "../../tools/pgbouncer.mjs";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const RESUMES_MS = 15_000;

// Workers and callers know nothing but the pooler: no direct way to LISTEN either.
(pgbouncer ? describe : describe.skip)("a transaction pooler of two connections", () => {
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
    bench = await Bench.open();
    log = await TransitionLog.install(bench);
    pooler = await startPgbouncer({ url: bench.direct });
    url = pooler.url(new URL(bench.direct).pathname.slice(1));
    ledger = new Ledger();
    workers = await WorkerProcess.startAll(2, {
      url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 20, prefetch: 20 } },
    });
    jobs = await bench.producer({ connection: { url } });
    callers = [1, 2, 3, 4].map(() => call());
    await until(() => ledger.starts().length > 100, { timeout: 20_000, what: "jobs are flowing" });
  }, 60_000);
  afterAll(async () => {
    stopped = true;
    await Promise.all(callers);
    await Promise.all(workers.map((worker) => worker.end()));
    await pooler.stop();
    await log.remove();
    await bench.close();
    ledger.remove();
  }, 60_000);

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
  }, 30_000);

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
  }, 60_000);

  it("each job was done once, by the view and by the ledger", async () => {
    stopped = true;
    await Promise.all(callers);
    expect(unexpected).toEqual([]);
    await until(
      async () => {
        const { queued = 0, running = 0 } = await bench.states();
        return queued + running === 0;
      },
      { timeout: 40_000, every: 100, what: "all jobs are over" },
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
    expect(await violations(bench, { log, ledger, acknowledged })).toEqual([]);
  }, 60_000);

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
  }, 30_000);

  it("and the processes are the same ones, said once why they poll, and drain", async () => {
    expect(await Promise.all(workers.map((worker) => worker.end()))).toEqual([0, 0]);
    for (const { output } of workers) {
      expect(output.match(/connection\.listenUrl/g)).toHaveLength(1);
      expect(output).not.toMatch(/unhandled|uncaught/i);
    }
  });
});
