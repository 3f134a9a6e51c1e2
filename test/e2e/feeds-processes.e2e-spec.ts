import { BuiltApp } from "../support/built-app.js";
import { FeedServer, feedOf } from "../support/feed-server.js";
import { Bench } from "../support/harness.js";
import { SampleApps } from "../support/sample-apps.js";
import { JobInspector } from "nestjs-pg-jobs";
import { until } from "../support/until.js";

// The feeds in processes of their own: what becomes of a feed whose worker dies, and what an environment may say.

let bench: Bench;
let server: FeedServer;
let started: BuiltApp[] = [];
beforeAll(async () => {
  bench = await Bench.open();
  server = await FeedServer.start();
});
afterEach(async () => {
  await Promise.all(started.map((app) => app.end()));
  started = [];
});
afterAll(async () => {
  await server.close();
  await bench.close();
});

const worker = (env: Record<string, string>) => {
  const app = new BuiltApp("worker", {
    DATABASE_URL: bench.url,
    JOBS_SCHEMA: bench.schema,
    WORKER_PORT: "0",
    ...env,
  });
  started.push(app);
  return app;
};

describe("a worker that is killed while it reads a feed", () => {
  it("has its job rescued after the lease, and the items are stored once", async () => {
    const source = server.add("killed", (response, asked) => {
      if (asked === 1) response.writeHead(200).write("{"); // the rest never comes
      else response.end(feedOf("a", "b"));
    });
    const env = { FEED_SOURCES: source, FEED_CRON: "* * * * * *", WORKER_LEASE: "2s" };
    const workers = [worker(env), worker(env)];
    await Promise.all(workers.map((app) => app.ready()));
    const read = async () =>
      (
        await bench.sql<{ id: string; state: string; worker: string; attempt: number }>(
          "select id, state, worker, attempt from jobs.job_status where kind = 'feed.read' order by number limit 1",
        )
      )[0];
    await until(() => server.asked(source) === 1, { what: "it is being read" });
    const { id, worker: holder } = await until(
      async () => {
        const job = await read();
        return job?.state === "running" && job;
      },
      { what: "the view shows who reads it" },
    );
    const victim = workers.find(({ child }) => holder.endsWith(`:${child.pid}`))!;
    victim.child.kill("SIGKILL");
    expect(await victim.exit()).toBe("SIGKILL");

    await until(async () => (await read())!.state === "succeeded", {
      timeout: 40_000,
      what: "the other one has read it",
    });
    const apps = new SampleApps(bench.schema, bench.url);
    const api = await apps.api();
    const events = await api.app.get(JobInspector).history(id);
    await apps.close();
    expect(events.map(({ event, attempt }) => `${attempt} ${event}`)).toEqual([
      "0 enqueued",
      "1 started",
      "2 rescued",
      "2 started",
      "2 succeeded",
    ]);
    // as often as there is time for
    await until(() => server.asked(source) >= 4, { what: "later ticks read it again" });
    const items = await bench.sql(
      "select id, job_id from samples.feed_item where source = $1 order by id",
      [source],
    );
    expect(items).toEqual([
      { id: "a", job_id: id },
      { id: "b", job_id: id },
    ]);
  }, 90_000);
});

describe("the environment", () => {
  it("is told with all that is wrong with the feeds, and without secrets", async () => {
    const app = worker({
      WORKER_LEASE: "10ms",
      FEED_SOURCES: "http://127.0.0.1/good,http://ann:s3cr3t@127.0.0.1/feed",
      FEED_CRON: "every two minutes",
      FEED_ATTEMPTS: "0",
      FEED_BACKOFF: "quadratic",
      FEED_RETRY_DELAY: "soon",
      FEED_RETRY_MAX: "-1s",
      FEED_TIMEOUT: "0",
    });
    expect(await app.exit()).toBe(1);
    const [title, ...problems] = app.output.trim().split("\n");
    expect(title).toBe("The environment has problems:");
    expect(problems).toEqual([
      expect.stringMatching(/^ {2}- WORKER_LEASE: expected a duration .* from 1s to 24h$/),
      expect.stringMatching(/^ {2}- FEED_SOURCES: expected URLs .* without a password/),
      expect.stringMatching(/^ {2}- FEED_CRON: expected five fields .* found 3$/),
      expect.stringMatching(/^ {2}- FEED_ATTEMPTS: expected a whole number, 1\.\.1000$/),
      "  - FEED_BACKOFF: expected linear or exponential",
      expect.stringMatching(/^ {2}- FEED_RETRY_DELAY: expected a duration/),
      expect.stringMatching(/^ {2}- FEED_RETRY_MAX: expected a duration/),
      expect.stringMatching(/^ {2}- FEED_TIMEOUT: expected a duration/),
    ]);
    expect(app.output).not.toContain("s3cr3t");
  });

  it("may not say a longest wait that is shorter than the first", async () => {
    const app = worker({ FEED_RETRY_DELAY: "10m", FEED_RETRY_MAX: "1m" });
    expect(await app.exit()).toBe(1);
    expect(app.output).toBe(
      "The environment has problems:\n  - FEED_RETRY_MAX: expected at least FEED_RETRY_DELAY (10m), found 1m\n",
    );
  });

  it("may name no source: then nothing is read at any tick", async () => {
    await bench.sql("delete from jobs.schedule");
    const app = worker({ FEED_CRON: "* * * * * *" });
    await app.ready();
    expect(await bench.sql("select from jobs.schedule")).toEqual([]);
  });
});
