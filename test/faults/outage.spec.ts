import type { JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const LEASE_MS = 2_000;
/** After it is over, so long until a worker works again. */
const RESUMES_MS = 30_000;

/** Two workers of a schema of their own, behind a network that can go away. */
class Scene {
  private constructor(
    readonly bench: Bench,
    readonly log: TransitionLog,
    readonly jobs: JobQueue,
    readonly proxy: TcpProxy,
    readonly ledger: Ledger,
    readonly workers: [WorkerProcess, WorkerProcess],
  ) {}

  static async open(cut: "one" | "both", prefetch: number): Promise<Scene> {
    const bench = await Bench.open();
    const log = await TransitionLog.install(bench);
    const ledger = new Ledger();
    const proxy = await TcpProxy.start(bench.url);
    const start = (url: string) =>
      WorkerProcess.start({
        url,
        schema: bench.schema,
        ledger,
        queues: { default: { concurrency: 20, prefetch } },
        lease: `${LEASE_MS}ms`,
      });
    const behind = proxy.url(bench.url);
    const workers = [start(behind), start(cut === "both" ? behind : bench.url)] as const;
    const scene = new Scene(bench, log, await bench.producer(), proxy, ledger, [...workers]);
    await Promise.all(workers.map((worker) => worker.seasoned()));
    return scene;
  }

  /** Jobs that wait at their gates. */
  async gates(count: number): Promise<string[]> {
    const payloads = Array.from({ length: count }, () => ({ do: "gate" }));
    return (await this.jobs.enqueueMany("task", payloads)).map(({ id }) => id);
  }

  /** What is wrong in the end, and how the two have drained. */
  async end(acknowledged: readonly string[]) {
    const { bench, log, ledger, workers } = this;
    const wrong = await violations(bench, { log, ledger, acknowledged });
    return { wrong, exits: await Promise.all(workers.map((worker) => worker.end())) };
  }

  async close(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.end()));
    await this.proxy.close();
    await this.log.remove();
    await this.bench.close();
    this.ledger.remove();
  }
}

const passed = async (since: number, ms: number) =>
  await until(() => performance.now() - since >= ms, { timeout: ms + 20_000, what: "it lasts" });

describe("a network that is gone for longer than the lease", () => {
  let one: Scene;
  let both: Scene;
  beforeAll(async () => {
    [one, both] = await Promise.all([Scene.open("one", 0), Scene.open("both", 10)]);
  }, 120_000);
  afterAll(async () => {
    await one.close();
    await both.close();
  }, 90_000);

  it("for one of two: the other takes over, and the one goes on afterwards", async () => {
    const { bench, jobs, proxy } = one;
    const [cut, other] = one.workers;
    other.stop(); // so that it claims none of them
    const ids = await one.gates(4);
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
    const more = await one.gates(2);
    await Promise.all(more.map((id) => cut.atGate(id, 1, RESUMES_MS)));
    for (const id of more) cut.tell(id, "return");
    for (const id of more)
      await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
    other.cont();
    expect(await one.end([...ids, ...more])).toEqual({ wrong: [], exits: [0, 0] });
  }, 150_000);

  it("for both: what ran through it is settled as if nothing had been", async () => {
    const { bench, jobs, proxy, ledger, workers } = both;
    // 20 run in each, and 10 wait for their slots.
    const ids = await both.gates(60);
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
    expect(await both.end([...ids, late!.id])).toEqual({ wrong: [], exits: [0, 0] });
  }, 150_000);
});
