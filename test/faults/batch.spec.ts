import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

describe("batches, of three processes", () => {
  let bench: Bench;
  let ledger: Ledger;
  let workers: WorkerProcess[] = [];
  beforeEach(async () => {
    bench = await Bench.open();
    ledger = new Ledger();
  });
  afterEach(async () => {
    await Promise.all(workers.map((one) => one.end()));
    workers = [];
    ledger.remove();
    await bench.close();
  });

  /** It has begun what it has not ended. */
  const inTheMiddle = ({ pid }: WorkerProcess): boolean => {
    const mine = ledger.lines().filter((line) => line.pid === pid);
    const starts = mine.filter(({ what }) => what === "start").length;
    return starts > mine.length - starts;
  };

  it("each of their jobs succeeds, though one of the processes is killed and one frozen", async () => {
    const batch = { size: 8, wait: "30ms" };
    const options = { url: bench.url, schema: bench.schema, ledger, batch };
    workers = await WorkerProcess.startAll(3, options);
    const jobs = await bench.producer();
    const payloads = Array.from({ length: 400 }, (_, n) => ({ payload: { n, ms: 150 } }));
    const sent = await jobs.enqueueMany("batched", payloads);
    await until(() => ledger.starts().length > 80, { what: "they work" });
    await until(() => inTheMiddle(workers[0]!), { what: "one is in the middle of its jobs" });
    workers[0]!.kill();
    workers[1]!.stop();
    await until(() => ledger.starts().length > 250, { what: "the third goes on" });
    workers[1]!.cont();
    await until(async () => (await bench.states()).succeeded === 400, {
      what: "all have succeeded",
      timeout: 40_000,
    });
    const results = await bench.sql<{ id: string; result: number }>(
      "select queue_id || '-' || id as id, result from jobs.done",
    );
    const byId = new Map(results.map(({ id, result }) => [id, result]));
    expect(sent.map(({ id }) => byId.get(id))).toEqual(payloads.map(({ payload: { n } }) => n));
    // Two processes had begun some that they could not settle.
    const twice = [...ledger.startsById().values()].filter((starts) => starts > 1);
    expect(twice.length).toBeGreaterThan(0);
    expect(twice.length).toBeLessThanOrEqual(2 * 10);
  });
});
