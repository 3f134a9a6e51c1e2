import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { Ledger, type LedgerLine, WorkerProcess } from "../support/worker-process.js";

describe("limits, of three processes", () => {
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

  /** Samples, by the tables, how many attempts are current at once: of all and of each tenant. */
  function watch() {
    const most = { all: 0, tenant: 0 };
    let watching = true;
    const done = (async () => {
      while (watching) {
        const rows = await bench.sql<{ n: number }>(
          `select count(*)::integer as n from jobs.job where lease_until >= clock_timestamp() and worker > 0
           group by payload ->> 'tenant'`,
        );
        most.all = Math.max(
          most.all,
          rows.reduce((sum, { n }) => sum + n, 0),
        );
        most.tenant = Math.max(most.tenant, ...rows.map(({ n }) => n));
      }
    })();
    return async () => {
      watching = false;
      await done;
      return most;
    };
  }

  /** The most of these jobs that were between their first line and their last at once, without the processes named. */
  function mostAtOnce(
    lines: readonly LedgerLine[],
    tenantOf: (id: string) => string,
    without: number[],
  ) {
    const now = new Map<string, number>();
    let most = 0;
    for (const { what, id, pid } of lines) {
      if (without.includes(pid)) continue;
      const tenant = tenantOf(id);
      const count = (now.get(tenant) ?? 0) + (what === "start" ? 1 : -1);
      now.set(tenant, count);
      most = Math.max(most, count);
    }
    return most;
  }

  it("none is exceeded and no key is stuck, while one is killed, one frozen, one started", async () => {
    const queues = {
      default: { concurrency: 20, limit: [{ max: 12 }, { key: "tenant", max: 3 }] },
    };
    const options = { url: bench.url, schema: bench.schema, ledger, queues };
    workers = await WorkerProcess.startAll(3, options);
    const jobs = await bench.producer();
    const tenants = new Map<string, string>();
    const payloads = Array.from({ length: 900 }, (_, n) => ({
      do: "sleep",
      ms: 10,
      tenant: n % 2 === 0 ? "hot" : `t${n % 20}`,
    }));
    const stop = watch();
    const made = await jobs.enqueueMany(
      "task",
      payloads.map((payload) => ({ payload })),
    );
    made.forEach(({ id }, n) => tenants.set(id, payloads[n]!.tenant));
    await until(() => ledger.starts().length > 100, { what: "they work" });
    workers[0]!.kill();
    workers[1]!.stop();
    workers.push(...(await WorkerProcess.startAll(1, options)));
    await until(() => ledger.starts().length > 300, { what: "the others go on", timeout: 30_000 });
    workers[1]!.cont();
    await until(async () => (await bench.states()).succeeded === 900, {
      what: "all have run",
      timeout: 50_000,
    });
    const most = await stop();
    expect(most.all).toBeLessThanOrEqual(12);
    expect(most.tenant).toBe(3);
    const gone = [workers[0]!, workers[1]!].map(({ pid }) => pid);
    expect(mostAtOnce(ledger.lines(), (id) => tenants.get(id)!, gone)).toBeLessThanOrEqual(3);
    await until(async () => (await bench.sql("select from jobs.slot")).length === 0, {
      what: "no slot is left",
    });
    expect(await bench.sql("select from jobs.parked")).toEqual([]);
  });
});
