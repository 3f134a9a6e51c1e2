import { jest } from "@jest/globals";
import type { INestApplicationContext } from "@nestjs/common";
import { HealthIndicatorService, TerminusModule } from "@nestjs/terminus";
import { JobInspector, JobQueue, OptionsError } from "nestjs-pg-jobs";
import { JobsHealthIndicator } from "nestjs-pg-jobs/terminus";
import { main } from "../../libs/jobs/src/cli/main.js";
import { Bench } from "../support/harness.js";
import { Role } from "../support/role.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

describe("JobsHealthIndicator", () => {
  let bench: Bench;
  let proxy: TcpProxy;
  let app: INestApplicationContext;
  let ids: string[];

  beforeAll(async () => {
    bench = await Bench.open();
    proxy = await TcpProxy.start(bench.url);
    app = await bench.app([
      bench.root({ connection: { url: proxy.url(bench.url) } }),
      TerminusModule.forRoot({ logger: false }),
    ]);
    const jobs = app.get(JobQueue);
    const sent = await jobs.enqueueMany("mail", [{}, {}, {}]);
    sent.push(await jobs.enqueue("other", {}, { queue: "slow" }));
    ids = sent.map(({ id }) => id);
    await bench.age(ids[0]!, "1 hour");
  });
  afterAll(async () => {
    await bench.close();
    await proxy.close();
  });

  /** A new one each time: it keeps a sample for 10 s. */
  const indicator = () =>
    new JobsHealthIndicator(
      app.get(HealthIndicatorService, { strict: false }),
      app.get(JobInspector),
    );

  it("is up without thresholds, and tells all", async () => {
    const { jobs } = await indicator().check("jobs");
    expect(jobs).toEqual({
      status: "up",
      backlog: 4,
      lagMs: expect.any(Number),
      oldestJob: ids[0],
      deadLetters: 0,
      expiredLeases: 0,
      queues: {
        default: expect.objectContaining({ backlog: 3, oldestJob: ids[0] }),
        slow: expect.objectContaining({ backlog: 1, oldestJob: ids[3] }),
      },
      reasons: [],
    });
    expect(jobs).toHaveProperty("lagMs", expect.closeTo(3_600_000, -5));
  });

  it("is up within its thresholds, degraded beyond, and says why", async () => {
    const check = async (options: object) => (await indicator().check("jobs", options)).jobs;
    expect(await check({ maxBacklog: 3, maxLag: "2h", maxDeadLetters: 0 })).toMatchObject({
      status: "up",
      reasons: [],
    });
    expect(await check({ maxBacklog: 2, maxLag: "30m" })).toMatchObject({
      status: "degraded",
      reasons: [
        "default: backlog 3 > 2",
        expect.stringMatching(/^default: lagMs 36\d{5} > 1800000$/),
      ],
    });
    expect(await check({ maxBacklog: 2, queues: ["slow"] })).toMatchObject({
      status: "up",
      backlog: 1,
      queues: { slow: { backlog: 1 } },
    });
  });

  it("counts leases that nobody renews", async () => {
    await bench.sql(
      "update jobs.job set lease_until = now() - interval '1 minute' where queue_id || '-' || id = $1",
      [ids[3]],
    );
    expect((await indicator().check("jobs")).jobs).toMatchObject({
      expiredLeases: 1,
      queues: { slow: { expiredLeases: 1, backlog: 1 } },
    });
  });

  it("is degraded when asked for a queue that is not there, and says which may be meant", async () => {
    expect((await indicator().check("jobs", { queues: ["slow", "nope", "defualt"] })).jobs).toEqual(
      expect.objectContaining({
        status: "degraded",
        queues: { slow: expect.anything() },
        reasons: [
          'queues: expected a queue that has had a job or a worker, found "nope"; known are "default", "slow"',
          'queues: expected a queue that has had a job or a worker, found "defualt"; did you mean "default"?',
        ],
      }),
    );
  });

  it.each([null, 7, "slow", { queues: "slow" }, { queues: [1] }, { queues: [] }])(
    "refuses as options: %p",
    async (options) => {
      await expect(indicator().check("jobs", options as never)).rejects.toThrow(OptionsError);
    },
  );

  it("refuses thresholds it does not know", async () => {
    await expect(indicator().check("jobs", { maxBaklog: 1 } as never)).rejects.toThrow(
      /maxBaklog.*maxBacklog/s,
    );
    await expect(indicator().check("jobs", { maxLag: "soon" })).rejects.toThrow(/maxLag/);
  });

  it("refuses a backlog beyond what is counted, which could never be too large", async () => {
    await expect(indicator().check("jobs", { maxBacklog: 10_001 })).rejects.toThrow(
      /maxBacklog: expected an integer 0\.\.10000, found 10001/,
    );
    expect((await indicator().check("jobs", { maxBacklog: 10_000 })).jobs.status).toBe("up");
    await bench.sql(
      `insert into jobs.job (queue_id, lane, kind, id, run_at, payload)
       select queue_id, lane, kind, 1e15::bigint + n, run_at, payload
       from jobs.job, generate_series(1, 10001) n where queue_id || '-' || id = $1`,
      [ids[1]],
    );
    expect((await indicator().check("jobs", { maxBacklog: 10_000 })).jobs).toMatchObject({
      status: "degraded",
      reasons: ["default: backlog 10001 > 10000"],
    });
    await bench.sql("delete from jobs.job where id > 1e15::bigint");
  });

  /** How often it asks, and what. */
  const watched = () => {
    const inspector = app.get(JobInspector);
    const health = jest.spyOn(inspector, "health");
    const reachable = jest.spyOn(inspector, "reachable");
    return {
      asked: () => [health.mock.calls.length, reachable.mock.calls.length],
      end: () => [health, reachable].forEach((spy) => spy.mockRestore()),
    };
  };
  const many = async (probe: JobsHealthIndicator) =>
    await Promise.all(Array.from({ length: 20 }, async () => (await probe.check("jobs")).jobs));

  it("is degraded, not down, while what is due takes too long to be counted, and asks once", async () => {
    await bench.sql("alter table jobs.stat rename to counted");
    await bench.sql(
      `create view jobs.stat as select * from jobs.counted
       union all select 1, 0::smallint, 4::smallint, 'epoch'::date, 0 from pg_sleep(14)`,
    );
    const probe = indicator();
    const spied = watched();
    const slow = {
      status: "degraded",
      reasons: [expect.stringMatching(/not counted within 5 s.*open for long/)],
    };
    for (const jobs of await many(probe)) expect(jobs).toEqual(slow);
    // Whoever comes later does not wait as long, and begins no second count.
    const from = performance.now();
    while (performance.now() - from < 7_000)
      for (const jobs of await many(probe)) expect(jobs).toEqual(slow);
    expect(spied.asked()).toEqual([1, 1]);
    // The connection that calls share was not asked.
    expect(
      await bench.sql(
        "select from pg_stat_activity where application_name = 'pg-jobs front' and query like '%queue order by name%'",
      ),
    ).toEqual([]);
    await until(async () => (await probe.check("jobs")).jobs.status === "up", {
      what: "the count is over",
    });
    expect(spied.asked()[0]).toBe(1);
    spied.end();
    await bench.sql("drop view jobs.stat");
    await bench.sql("alter table jobs.counted rename to stat");
  }, 60_000);

  it("is degraded, not down, while somebody has locked what it counts, and asks once", async () => {
    const somebody = await bench.client();
    await somebody.query(`begin; lock table ${bench.schema}.lane in access exclusive mode`);
    const probe = indicator();
    const spied = watched();
    for (let n = 0; n < 3; n++)
      for (const jobs of await many(probe))
        expect(jobs).toEqual({
          status: "degraded",
          reasons: [expect.stringMatching(/holds a lock on the job tables/)],
        });
    expect(spied.asked()).toEqual([1, 0]);
    spied.end();
    await somebody.query("rollback");
    somebody.release();
  });

  it("is degraded, not down, for a producer's role, which may not count", async () => {
    const role = await Role.create(bench);
    const env = { DATABASE_URL: bench.direct, JOBS_SCHEMA: bench.schema };
    expect(await main(["migrate", "--producer", role.name], env)).toBe(0);
    const producer = await bench.app([bench.root({ connection: { url: role.url } })]);
    await producer.get(JobQueue).enqueue("mail");
    const probe = new JobsHealthIndicator(
      app.get(HealthIndicatorService, { strict: false }),
      producer.get(JobInspector),
    );
    expect((await probe.check("jobs")).jobs).toEqual({
      status: "degraded",
      reasons: [expect.stringMatching(/permission denied for table .*docs\/roles\.md/)],
    });
    await producer.close();
    await role.drop();
  });

  it("is down without a schema, and says so", async () => {
    const bare = await Bench.open({ migrated: false });
    const unmade = await bench.app([bare.root()]);
    const probe = new JobsHealthIndicator(
      app.get(HealthIndicatorService, { strict: false }),
      unmade.get(JobInspector),
    );
    expect((await probe.check("jobs")).jobs).toEqual({
      status: "down",
      reasons: [expect.stringMatching(/Run "pg-jobs migrate"/)],
    });
    await bare.close();
  });

  it("is down while the database is away, asks it once in 10 s, and is up again as soon", async () => {
    const probe = indicator();
    const spied = watched();
    proxy.setMode("reset");
    const from = performance.now();
    for (let n = 0; n < 50; n++)
      for (const jobs of await many(probe))
        expect(jobs).toMatchObject({
          status: "down",
          reasons: ["the job tables cannot be read"],
        });
    expect(performance.now() - from).toBeLessThan(10_000);
    expect(spied.asked()).toEqual([1, 0]);
    proxy.setMode("pass");
    await until(async () => (await probe.check("jobs")).jobs.status === "up", {
      timeout: 12_000,
      what: "it is up again",
    });
    expect(spied.asked()).toEqual([2, 0]);
    spied.end();
  });
});
