import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const INNOCENTS = 60;

describe("a job that kills its process", () => {
  let bench: Bench;
  let log: TransitionLog;
  let ledger: Ledger;
  const workers: WorkerProcess[] = [];

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

  it("is dead after three deaths, and costs its neighbours no attempt", async () => {
    const options = {
      url: bench.url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 4, prefetch: 10 } },
      lease: "3s",
    };
    // Four, so that after each death there is one that may take over at once.
    workers.push(...(await WorkerProcess.startAll(4, options)));
    await Promise.all(workers.map((worker) => worker.seasoned()));
    const jobs = await bench.producer();
    // In one call: whoever claims the first has others beside it.
    const [killer, ...made] = await jobs.enqueueMany("task", [
      { do: "die", ms: 300 },
      ...Array.from({ length: INNOCENTS }, () => ({ do: "sleep", ms: 500 })),
    ]);
    if (!killer) throw new Error("none was made");
    const ids = made.map(({ id }) => id);
    let deaths = 0;
    await until(
      async () => {
        // As an orchestrator does.
        const fallen = workers.filter(({ over }) => over).length;
        for (; deaths < fallen; deaths++) workers.push(WorkerProcess.start(options));
        const { queued = 0, running = 0 } = await bench.states();
        return queued + running === 0;
      },
      { timeout: 90_000, every: 100, what: "all jobs are over" },
    );

    expect(deaths).toBe(3);
    const ends = await Promise.all(
      workers.filter(({ over }) => over).map((worker) => worker.exit()),
    );
    expect(ends).toEqual(["SIGKILL", "SIGKILL", "SIGKILL"]);
    expect(ledger.starts(killer.id)).toHaveLength(3);
    const [letter] = await bench.sql<{ reason: string; crashes: number; failures: number }>(
      "select reason, crashes, failures from jobs.dead where queue_id || '-' || id = $1",
      [killer.id],
    );
    expect(letter).toEqual({ reason: "crashed", crashes: 3, failures: 0 });

    const innocents = await bench.sql<{ state: string; failures: number; n: number }>(
      "select state, failures, count(*)::int as n from jobs.job_status where id <> $1 group by 1, 2",
      [killer.id],
    );
    expect(innocents).toEqual([{ state: "succeeded", failures: 0, n: INNOCENTS }]);

    // The third time it was alone, although its neighbours were not done yet the first time.
    const [first, , last] = ledger.starts(killer.id);
    expect(companions(first!.at, first!.pid, killer.id)).toBeGreaterThan(0);
    expect(companions(last!.at, last!.pid, killer.id)).toBe(0);
    expect(await violations(bench, { log, ledger, acknowledged: [killer.id, ...ids] })).toEqual([]);
    const living = workers.filter(({ over }) => !over);
    await Promise.all(living.map((worker) => worker.ready()));
    expect(await Promise.all(living.map((worker) => worker.end()))).toEqual(living.map(() => 0));
  }, 150_000);

  /** How many other bodies ran in this process at the time or later: it was never to run another one. */
  function companions(at: number, pid: number, id: string): number {
    const lines = ledger.lines().filter((line) => line.pid === pid && line.id !== id);
    const ended = new Set(
      lines
        .filter((line) => line.what === "end" && line.at <= at)
        .map((line) => `${line.id} ${line.attempt}`),
    );
    return lines.filter((line) => line.what === "start" && !ended.has(`${line.id} ${line.attempt}`))
      .length;
  }
});
