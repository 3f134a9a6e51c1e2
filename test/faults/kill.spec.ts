import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const JOBS = 2_500;
const SLOTS = 10;
const PREFETCH = 10;

describe("SIGKILL of one of two workers", () => {
  let bench: Bench;
  let log: TransitionLog;
  let ledger: Ledger;
  let workers: WorkerProcess[] = [];

  beforeAll(async () => {
    bench = await Bench.open();
    log = await TransitionLog.install(bench);
    ledger = new Ledger();
  });
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.end()));
    await log.remove();
    await bench.close();
    ledger.remove();
  });

  it("costs no job, and a second start at most of those that it held", async () => {
    workers = await WorkerProcess.startAll(2, {
      url: bench.url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: SLOTS, prefetch: PREFETCH } },
      lease: "2s",
    });
    const [victim, survivor] = workers as [WorkerProcess, WorkerProcess];
    await survivor.seasoned();
    const jobs = await bench.producer();
    const made = await jobs.enqueueMany(
      "task",
      Array.from({ length: JOBS }, () => ({ do: "sleep", ms: 50 })),
    );
    const ids = made.map(({ id }) => id);
    await until(() => ledger.starts().length >= 300, {
      timeout: 30_000,
      what: "300 jobs have been started",
    });
    victim.kill();
    expect(await victim.exit()).toBe("SIGKILL");
    const settledAtTheKill = new Set(
      (await bench.sql<{ id: string }>("select queue_id || '-' || id as id from jobs.done")).map(
        ({ id }) => id,
      ),
    );
    expect(settledAtTheKill.size).toBeLessThan(JOBS);
    await until(async () => (await bench.states()).succeeded === JOBS, {
      timeout: 60_000,
      every: 100,
      what: "all have succeeded",
    });

    const twice = [...ledger.startsById()].filter(([, times]) => times > 1);
    expect(twice.every(([, times]) => times === 2)).toBe(true);
    // It was in the middle of jobs: without any that ran again the kill would have hit nobody.
    expect(twice.length).toBeGreaterThan(0);
    expect(twice.length).toBeLessThanOrEqual(SLOTS);
    expect(twice.filter(([id]) => settledAtTheKill.has(id))).toEqual([]);
    const again = await bench.sql<{ id: string; attempt: number }>(
      "select id, attempt from jobs.job_status where attempt > 1",
    );
    expect(again.length).toBeLessThanOrEqual(SLOTS + PREFETCH);
    expect(again.every(({ attempt }) => attempt === 2)).toBe(true);
    expect(again.filter(({ id }) => settledAtTheKill.has(id))).toEqual([]);
    await until(() => survivor.heard("rescued").length >= again.length, { what: "it says so" });
    expect(survivor.heard("rescued")).toHaveLength(again.length);
    expect(await violations(bench, { log, ledger, acknowledged: ids })).toEqual([]);
    expect(await survivor.end()).toBe(0);
  }, 150_000);
});
