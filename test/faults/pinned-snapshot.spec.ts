import type { PoolClient } from "pg";
import { Bench } from "../support/harness.js";
import { violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const JOBS = 50_000;
const STEP = 1_000;
const MIN_RATIO = 0.6;

describe("a snapshot that is held open", () => {
  let bench: Bench;
  let ledger: Ledger;
  let worker: WorkerProcess | undefined;
  let holder: PoolClient;

  beforeAll(async () => {
    bench = await Bench.open();
    ledger = new Ledger();
    holder = await bench.client();
  });
  afterAll(async () => {
    await holder.query("rollback");
    holder.release();
    await worker?.end();
    await bench.close();
    ledger.remove();
  });

  it(`does not slow down the draining of ${JOBS} jobs`, async () => {
    const jobs = await bench.producer();
    // The rows of finished jobs cannot be removed as long as this sees them.
    await holder.query("begin isolation level repeatable read");
    await holder.query(`select count(*) from ${bench.schema}.job`);
    for (let sent = 0; sent < JOBS; sent += 5_000)
      await jobs.enqueueMany(
        "noop",
        Array.from({ length: 5_000 }, () => ({})),
      );
    worker = WorkerProcess.start({
      url: bench.url,
      schema: bench.schema,
      ledger,
      // Small batches: each claim would walk what the ones before it have left behind.
      queues: { default: { concurrency: 50, prefetch: 50 } },
      lease: "30s",
      poll: "2s",
    });
    /** When each thousand has succeeded, by the worker's own count. */
    const times: number[] = [];
    await until(
      async () => {
        const { succeeded } = (await worker!.report()).counts;
        while (times.length < Math.floor(succeeded / STEP)) times.push(performance.now());
        return succeeded === JOBS;
      },
      { timeout: 150_000, every: 5, what: "all have succeeded" },
    );
    // The median of the steps: a machine that stands still for some seconds makes a few of them slow, not most.
    const median = (from: number, to: number) => {
      const steps = times.slice(from, to).map((at, index) => at - times[from + index - 1]!);
      return steps.toSorted((a, b) => a - b)[steps.length >> 1]!;
    };
    // Its start, and the first plans and compilations, belong to no half.
    const [begin, middle] = [times.length / 10, times.length * 0.55].map(Math.floor);
    const ratio = median(begin!, middle!) / median(middle!, times.length);
    expect(ratio).toBeGreaterThan(MIN_RATIO);
    expect(await bench.states()).toEqual({ succeeded: JOBS });
    // Without dead rows it would be no test of this.
    const dead = async () => {
      const [row] = await bench.sql<{ n: number }>(
        "select n_dead_tup::int as n from pg_stat_user_tables where relid = 'jobs.job'::regclass",
      );
      return row!.n > JOBS / 2;
    };
    await until(dead, { timeout: 30_000, every: 100, what: "its rows are dead and still there" });
    expect(await violations(bench, {})).toEqual([]);
    expect(await worker.end()).toBe(0);
  }, 300_000);
});
