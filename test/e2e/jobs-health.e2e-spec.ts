import type { INestApplicationContext } from "@nestjs/common";
import { HealthIndicatorService, TerminusModule } from "@nestjs/terminus";
import { JobInspector, JobQueue, OptionsError } from "nestjs-pg-jobs";
import { JobsHealthIndicator } from "nestjs-pg-jobs/terminus";
import { Bench } from "../support/harness.js";
import { TcpProxy } from "../support/tcp-proxy.js";

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

  it.each([null, 7, "slow", { queues: "slow" }, { queues: [1] }])(
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

  it("is degraded, not down, while what is due takes too long to be counted", async () => {
    await bench.sql("alter table jobs.stat rename to counted");
    await bench.sql(
      `create view jobs.stat as select * from jobs.counted
       union all select 1, 0::smallint, 4::smallint, 'epoch'::date, 0 from pg_sleep(7)`,
    );
    expect((await indicator().check("jobs")).jobs).toEqual({
      status: "degraded",
      reasons: [expect.stringMatching(/not counted within 5 s.*open for long/)],
    });
    await bench.sql("drop view jobs.stat");
    await bench.sql("alter table jobs.counted rename to stat");
  });

  it("is down while the database is away, and up again", async () => {
    const probe = indicator();
    proxy.setMode("reset");
    expect((await probe.check("jobs")).jobs).toMatchObject({
      status: "down",
      reasons: ["the job tables cannot be read"],
    });
    proxy.setMode("pass");
    expect((await probe.check("jobs")).jobs).toMatchObject({ status: "up" });
  });
});
