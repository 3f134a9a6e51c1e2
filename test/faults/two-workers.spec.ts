import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const JOBS = 10_000;

describe("two worker processes", () => {
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

  it(`run each of ${JOBS} jobs once`, async () => {
    workers = await WorkerProcess.startAll(2, {
      url: bench.url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 50, prefetch: 50 } },
      lease: "30s",
    });
    const jobs = await bench.producer();
    const made = await jobs.enqueueMany(
      "task",
      Array.from({ length: JOBS }, () => ({ do: "nothing" })),
    );
    const ids = made.map(({ id }) => id);
    await until(async () => (await bench.states()).succeeded === JOBS, {
      timeout: 90_000,
      every: 100,
      what: "all have succeeded",
    });

    const starts = ledger.startsById();
    expect(starts.size).toBe(JOBS);
    expect([...starts.values()].filter((times) => times !== 1)).toEqual([]);
    expect(ids.every((id) => starts.has(id))).toBe(true);
    // Both of them had their share.
    for (const { pid } of workers)
      expect(ledger.starts().some((line) => line.pid === pid)).toBe(true);
    const [attempts] = await bench.sql<{ n: number }>(
      "select count(*)::int as n from jobs.job_status where attempt <> 1 or failures <> 0",
    );
    expect(attempts).toEqual({ n: 0 });
    expect(await violations(bench, { log, ledger, acknowledged: ids })).toEqual([]);
    expect(await Promise.all(workers.map((worker) => worker.end()))).toEqual([0, 0]);
  }, 150_000);
});
