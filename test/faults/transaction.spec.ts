import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { type Death, Ledger, WorkerProcess } from "../support/worker-process.js";

// Payments in job.transaction(), while processes die: each succeeded job has paid once, nothing else has paid.

interface Payment {
  job: string;
  attempt: number;
}

let bench: Bench;
let log: TransitionLog;
let ledger: Ledger;
let workers: WorkerProcess[] = [];

beforeAll(async () => {
  bench = await Bench.open();
  await bench.sql("create table jobs.payment (job text not null, attempt integer not null)");
  log = await TransitionLog.install(bench);
  ledger = new Ledger();
});
afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.end()));
  await log.remove();
  await bench.close();
  ledger.remove();
});
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.end()));
  workers = [];
});

const settings = () => ({
  url: bench.url,
  schema: bench.schema,
  ledger,
  lease: "2s",
  queues: { default: { concurrency: 5, prefetch: 0 } },
});
const payments = async () =>
  await bench.sql<Payment>("select job, attempt from jobs.payment order by job, attempt");

/** Σ effects = succeeded jobs, each by the attempt that succeeded. */
async function balanced(ids: readonly string[]): Promise<void> {
  const paid = (await payments()).filter(({ job }) => ids.includes(job));
  const succeeded = await bench.sql<Payment>(
    "select id as job, attempt from jobs.job_status where state = 'succeeded' and id = any($1) order by id, attempt",
    [ids],
  );
  expect(paid).toEqual(succeeded);
  expect(paid).toHaveLength(ids.length);
}

const STEPS: [step: string, death: Death, survives: boolean][] = [
  ["before the write", "before-write", false],
  ["after the write", "after-write", false],
  ["before the success is sent", { sends: "delete from .*job j", answered: false }, false],
  ["between the success and the commit", { sends: "delete from .*job j", answered: true }, false],
  ["before the commit is sent", { sends: "^commit", answered: false }, false],
  ["when the commit is answered", { sends: "^commit", answered: true }, true],
];

describe.each(["ours", "theirs"] as const)(
  "a process that dies in job.transaction(), connection: %s",
  (source) => {
    it("has paid with the job's success, or not at all, at whatever step", async () => {
      const jobs = await bench.producer();
      const ids: string[] = [];
      for (const [step, die, survives] of STEPS) {
        const worker = WorkerProcess.start({
          ...settings(),
          queues: { default: { concurrency: 1, prefetch: 0 } },
        });
        workers.push(worker);
        await worker.ready();
        const { id } = await jobs.enqueue("task", { do: "pay", source, die: die as object });
        ids.push(id);
        expect(await worker.exit()).toBe("SIGKILL");
        const paid = (await payments()).some(({ job }) => job === id);
        const succeeded = (await bench.state(id)) === "succeeded";
        expect({ step, paid, succeeded }).toEqual({ step, paid: survives, succeeded: survives });
      }
      // A sound process takes over what the dead ones have left.
      const heir = WorkerProcess.start(settings());
      workers.push(heir);
      await until(
        async () =>
          (
            await bench.sql(
              "select 1 from jobs.job_status where state = 'succeeded' and id = any($1)",
              [ids],
            )
          ).length === ids.length,
        { timeout: 60_000, every: 100, what: "all have succeeded" },
      );
      await balanced(ids);
      const attempts = (await payments())
        .filter(({ job }) => ids.includes(job))
        .map(({ job, attempt }) => [ids.indexOf(job), attempt]);
      expect(new Map(attempts as [number, number][])).toEqual(
        new Map(STEPS.map(([, , survives], index) => [index, survives ? 1 : 2])),
      );
      expect(await violations(bench, { log, ledger, acknowledged: ids })).toEqual([]);
    }, 180_000);
  },
);

describe("two worker processes, killed at random", () => {
  it("pay for every job once", async () => {
    const JOBS = 600;
    const jobs = await bench.producer();
    const made = await jobs.enqueueMany(
      "task",
      Array.from({ length: JOBS }, (_, index) => ({
        do: "pay",
        source: index % 2 === 0 ? "ours" : "theirs",
        ms: (index % 7) * 20,
      })),
      { attempts: 20 },
    );
    const ids = made.map(({ id }) => id);
    workers = [WorkerProcess.start(settings()), WorkerProcess.start(settings())];
    const paid = async () => (await payments()).filter(({ job }) => ids.includes(job)).length;
    let kills = 0;
    // However many are done while this process stands still, some are left for the third.
    while (((await paid()) < JOBS / 2 || kills < 3) && kills < 12) {
      const at = Math.floor(Math.random() * 2);
      const from = ledger.lines().length;
      const after = 1 + Math.floor(Math.random() * 25);
      await until(() => ledger.lines().length >= from + after, {
        timeout: 30_000,
        every: 1,
        what: "something runs",
      });
      workers[at]!.kill();
      await workers[at]!.exit();
      workers[at] = WorkerProcess.start(settings());
      kills++;
    }
    expect(kills).toBeGreaterThan(2);
    await until(
      async () => (await paid()) >= JOBS && (await bench.states()).running === undefined,
      {
        timeout: 90_000,
        every: 200,
        what: "all have paid",
      },
    );
    await balanced(ids);
    expect(ledger.starts().length).toBeGreaterThan(JOBS);
    expect(await violations(bench, { log, ledger, acknowledged: ids })).toEqual([]);
  }, 240_000);
});
