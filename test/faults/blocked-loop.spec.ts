import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

/** Of which half is left when it is renewed: nobody else may take over because the machine stands still. */
const LEASE_MS = 4_000;
const TIMEOUT_MS = 1_000;
/** A running job is renewed so much longer than its timeout. */
const BEYOND_MS = 10_000;

describe("a handler that blocks the event loop", () => {
  let bench: Bench;
  let log: TransitionLog;
  let ledger: Ledger;
  let blocked: WorkerProcess;
  let other: WorkerProcess;

  beforeAll(async () => {
    bench = await Bench.open();
    log = await TransitionLog.install(bench);
    ledger = new Ledger();
    [blocked, other] = (await WorkerProcess.startAll(2, {
      url: bench.url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 2, prefetch: 6 } },
      lease: `${LEASE_MS}ms`,
    })) as [WorkerProcess, WorkerProcess];
    await other.seasoned();
  }, 60_000);
  afterAll(async () => {
    blocked.kill();
    await blocked.exit();
    await other.end();
    await log.remove();
    await bench.close();
    ledger.remove();
  });

  it("for three leases keeps its own, and those of its neighbours", async () => {
    const jobs = await bench.producer();
    other.stop(); // so that it claims none of them
    const made = await jobs.enqueueMany("task", [
      { do: "block", ms: 3 * LEASE_MS },
      ...Array.from({ length: 7 }, () => ({ do: "sleep", ms: 10 })),
    ]);
    const blocker = made[0]!;
    await until(() => ledger.starts(blocker.id).length === 1, { what: "it blocks" });
    other.cont();
    await until(async () => (await bench.states()).succeeded === made.length, {
      timeout: 40_000,
      what: "all have succeeded",
    });
    // The other one saw nothing to take over, though it looked all the time.
    expect(other.heard("rescued")).toEqual([]);
    expect([...ledger.startsById().values()]).toEqual(made.map(() => 1));
    const [{ ms }] = (await bench.sql<{ ms: number }>(
      "select extract(epoch from finished_at - started_at)::float8 * 1000 as ms from jobs.job_status where id = $1",
      [blocker.id],
    )) as [{ ms: number }];
    expect(ms).toBeGreaterThanOrEqual(3 * LEASE_MS);
    expect((await blocked.report()).lost).toBe(0);
  }, 90_000);

  it("for ever is renewed until its time is up, then another takes over", async () => {
    const jobs = await bench.producer();
    other.stop();
    const { id } = await jobs.enqueue("task", { do: "spin" }, { timeout: `${TIMEOUT_MS}ms` });
    const first = await until(() => ledger.starts(id)[0], { what: "it spins" });
    other.cont();
    await until(async () => (await bench.state(id)) === "succeeded", {
      timeout: TIMEOUT_MS + BEYOND_MS + LEASE_MS + 30_000,
      what: "the other has finished it",
    });
    const [, second, ...more] = ledger.starts(id);
    expect(more).toEqual([]);
    expect(second).toMatchObject({ attempt: 2, pid: other.pid });
    const after = second!.at - first.at;
    expect(after).toBeGreaterThan(TIMEOUT_MS + BEYOND_MS);
    expect(after).toBeLessThan(TIMEOUT_MS + BEYOND_MS + LEASE_MS + 20_000);
    expect(other.heard("rescued", id)).toHaveLength(1);
    expect(await violations(bench, { log, ledger })).toEqual([]);
  }, 90_000);
});
