import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

describe("schedules of three processes", () => {
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

  const ticks = async (name: string) =>
    (
      await bench.sql<{ tick: number }>(
        `select (headers ->> 'tick')::float8 / 1000 as tick from (
           select headers from jobs.job union all select headers from jobs.done) one
         where headers ->> 'schedule' = $1 order by 1`,
        [name],
      )
    ).map(({ tick }) => tick);

  it("have each tick once, while one of them is killed, frozen, and started again", async () => {
    const { schedules } = await bench.producer();
    const names = ["a", "b", "c"];
    for (const name of names)
      await schedules.upsert(name, "task", {
        cron: "* * * * * *",
        overlap: "queue",
        misfire: "all",
        payload: { do: "nothing" },
      });
    const options = { url: bench.url, schema: bench.schema, ledger };
    workers = await WorkerProcess.startAll(3, options);
    const reach = async (count: number) =>
      await until(async () => (await ticks("a")).length >= count, {
        what: `${count} ticks`,
        timeout: 40_000,
      });
    await reach(3);
    workers[0]!.kill();
    await reach(6);
    workers[1]!.stop();
    await reach(9);
    workers[1]!.cont();
    workers.push(...(await WorkerProcess.startAll(1, options)));
    await reach(12);
    await Promise.all(workers.map((one) => one.end()));
    for (const name of names) {
      const all = await ticks(name);
      expect(all.map((tick) => tick - all[0]!)).toEqual(all.map((_, index) => index));
    }
    // What ran is what the tables say: with its process killed a job may run twice, but is one job.
    const ids = await bench.sql("select id from jobs.job_status");
    expect(new Set(ledger.starts().map(({ id }) => id)).size).toBeLessThanOrEqual(ids.length);
  });
});
