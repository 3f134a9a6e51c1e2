import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

describe("a queue that is paused, of three processes", () => {
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

  it("starts nothing, while one of them is killed, frozen, and started again; then everything", async () => {
    const jobs = await bench.producer();
    const options = { url: bench.url, schema: bench.schema, ledger };
    workers = await WorkerProcess.startAll(3, options);
    let sent = 0;
    const pouring = setInterval(() => {
      const some = Array.from({ length: 3 }, () => ({ do: "sleep", ms: 30 }));
      void jobs.enqueueMany("task", some).then((made) => (sent += made.length));
    }, 10);
    try {
      await until(() => ledger.starts().length > 60, { what: "they work" });
      await jobs.queues.pause("default", { by: "a spec" });
      const pausedAt = Date.now();
      workers[0]!.kill();
      workers[1]!.stop();
      workers.push(...(await WorkerProcess.startAll(1, options)));
      // Longer than its lease: what it held is nobody's by now.
      await until(() => Date.now() - pausedAt > 4_000, { what: "four seconds" });
      workers[1]!.cont();
      const before = sent;
      await until(() => sent > before + 300, { what: "more jobs have come" });
      expect(ledger.starts().filter(({ at }) => at > pausedAt + 1_000)).toEqual([]);
      await jobs.queues.resume("default");
    } finally {
      clearInterval(pouring);
    }
    await until(
      async () => ((await bench.states()).queued ?? (await bench.states()).running) === undefined,
      { what: "all have run", timeout: 40_000 },
    );
    expect(await bench.states()).toEqual({ succeeded: sent });
    // Only what the one that was killed, or the frozen one, had begun may have begun twice.
    const twice = [...ledger.startsById().values()].filter((starts) => starts > 1);
    expect(twice.length).toBeLessThanOrEqual(2 * 10);
  });
});
