import type { JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const LEASE_MS = 2_000;
/** After it is over, so long until a worker works again. */
const RESUMES_MS = 15_000;

describe("a network that is gone for longer than the lease", () => {
  let bench: Bench;
  let log: TransitionLog;
  let ledger: Ledger;
  let jobs: JobQueue;
  let proxy: TcpProxy;
  let workers: WorkerProcess[] = [];

  beforeEach(async () => {
    bench = await Bench.open();
    log = await TransitionLog.install(bench);
    ledger = new Ledger();
    jobs = await bench.producer();
    proxy = await TcpProxy.start(bench.url);
  });
  afterEach(async () => {
    await Promise.all(workers.map((worker) => worker.end()));
    await proxy.close();
    await log.remove();
    await bench.close();
    ledger.remove();
  });

  const start = (url: string, prefetch = 0) =>
    WorkerProcess.start({
      url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 20, prefetch } },
      lease: `${LEASE_MS}ms`,
    });
  const gate = async (count: number) =>
    (
      await jobs.enqueueMany(
        "task",
        Array.from({ length: count }, () => ({ do: "gate" })),
      )
    ).map(({ id }) => id);
  const passed = async (since: number, ms: number) =>
    await until(() => performance.now() - since >= ms, { timeout: ms + 5_000, what: "it lasts" });

  it("for one of two: the other takes over, and the one goes on afterwards", async () => {
    const [cut, other] = (workers = [start(proxy.url(bench.url)), start(bench.url)]) as [
      WorkerProcess,
      WorkerProcess,
    ];
    await Promise.all(workers.map((worker) => worker.seasoned()));
    other.stop(); // so that it claims none of them
    const ids = await gate(4);
    await Promise.all(ids.map((id) => cut.atGate(id)));
    proxy.setMode("blackhole");
    const since = performance.now();
    other.cont();
    await Promise.all(ids.map((id) => other.atGate(id, 2)));
    // One ends during the outage, one while nothing is known yet, one is told before it ends.
    cut.tell(ids[0]!, "return");
    other.tell(ids[0]!, "return");
    other.tell(ids[1]!, "snooze");
    await passed(since, 3 * LEASE_MS);
    proxy.setMode("pass");
    const over = performance.now();
    await until(async () => (await cut.report()).lost === ids.length, {
      timeout: RESUMES_MS,
      what: "what the other has taken over is lost",
    });
    for (const id of ids) expect(cut.heard("lost", id)).toHaveLength(1);
    for (const id of ids.slice(1)) cut.tell(id, "return");
    for (const id of ids.slice(2)) other.tell(id, "return");
    for (const id of [ids[0]!, ...ids.slice(2)]) {
      await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
      expect(await jobs.get(id)).toMatchObject({ attempt: 2, result: "returned by attempt 2" });
    }
    expect(await jobs.get(ids[1]!)).toMatchObject({ state: "queued", attempt: 2, failures: 0 });

    // Only the one that was cut off can take these.
    other.stop();
    const more = await gate(2);
    await Promise.all(more.map((id) => cut.atGate(id, 1, RESUMES_MS)));
    expect(performance.now() - over).toBeLessThan(RESUMES_MS);
    for (const id of more) cut.tell(id, "return");
    for (const id of more)
      await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
    other.cont();
    expect(await violations(bench, { log, ledger, acknowledged: [...ids, ...more] })).toEqual([]);
    expect(await Promise.all(workers.map((worker) => worker.end()))).toEqual([0, 0]);
  }, 60_000);

  it("for both: what ran through it is settled as if nothing had been", async () => {
    workers = [1, 2].map(() => start(proxy.url(bench.url), 10));
    await Promise.all(workers.map((worker) => worker.seasoned()));
    // 20 run in each, and 10 wait for their slots.
    const ids = await gate(60);
    await until(() => ledger.starts().length === 40, { what: "all slots are taken" });
    const holders = new Map(
      ledger.starts().map(({ id, pid }) => [id, workers.find((worker) => worker.pid === pid)!]),
    );
    // Due in the middle of the outage: a claim is sent, or waits to be, while nothing gets through.
    const [late] = await jobs.enqueueMany("task", [{ do: "nothing" }], { delay: "1s" });
    proxy.setMode("blackhole");
    const since = performance.now();
    const running = [...holders];
    const [early, afterwards] = [running.slice(0, 20), running.slice(20)];
    // While nothing can be written and all leases have expired; so what waits gets slots, and must not start.
    await passed(since, LEASE_MS + 500);
    for (const [id, worker] of early) worker.tell(id, "return");
    await passed(since, 5_000);
    proxy.setMode("pass");
    // Whoever wanted to take over would have done so by now.
    await passed(since, 8_000);
    for (const [id, worker] of afterwards) worker.tell(id, "return");
    for (const id of ids.filter((one) => !holders.has(one)))
      for (const worker of workers) worker.tell(id, "return");
    await until(async () => (await bench.states()).succeeded === ids.length + 1, {
      timeout: RESUMES_MS,
      what: "all have succeeded",
    });
    expect([...ledger.startsById().values()].filter((times) => times > 1)).toEqual([]);
    for (const worker of workers) {
      expect(worker.heard("rescued")).toEqual([]);
      expect((await worker.report()).lost).toBe(0);
    }
    expect(await violations(bench, { log, ledger, acknowledged: [...ids, late!.id] })).toEqual([]);
    expect(await Promise.all(workers.map((worker) => worker.end()))).toEqual([0, 0]);
  }, 60_000);
});
