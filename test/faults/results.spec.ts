import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { JobQueue, JobResultTimeoutError } from "nestjs-pg-jobs";
import { type PostgresServer, startPostgres } from "../../tools/postgres.mjs";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

// Many wait for results, with worker processes of their own: what it costs, what it leaves, what becomes of it in faults.

const root = path.resolve(import.meta.dirname, "../..");
const WAITERS = 1_000;
const POLL_MS = 1_000;
/** Of a poll and a look, on a machine that may stand still for a while. */
const SOON_MS = 6_000;

describe("results that many wait for", () => {
  let server: PostgresServer;
  let admin: pg.Client;
  let bench: Bench;
  let ledger: Ledger;
  let workers: WorkerProcess[] = [];
  /** Statements of this role are those of the process that waits, and of nobody else. */
  let producerUrl: string;

  beforeAll(async () => {
    server = await startPostgres({ settings: { shared_preload_libraries: "pg_stat_statements" } });
    admin = new pg.Client(server.url());
    await admin.connect();
    await admin.query("create extension pg_stat_statements");
    await admin.query("create role waits superuser login password 'waits'");
    const url = new URL(server.url());
    url.username = url.password = "waits";
    producerUrl = url.href;
    bench = await Bench.open({ url: server.url() });
    ledger = new Ledger();
  }, 120_000);
  afterEach(async () => {
    await bench.closeApps();
    await Promise.all(workers.splice(0).map((worker) => worker.end()));
  });
  afterAll(async () => {
    await bench.close();
    await admin.end();
    await server.stop();
    ledger.remove();
  });

  const start = async (count: number) =>
    (workers = await WorkerProcess.startAll(count, {
      url: bench.url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 100 } },
    }));
  const producer = async (options = {}): Promise<JobQueue> =>
    await bench.producer({ connection: { url: producerUrl }, ...options });
  const connections = async (): Promise<string[]> => {
    const { rows } = await admin.query<{ name: string }>(
      "select application_name as name from pg_stat_activity where usename = 'waits' order by 1",
    );
    return rows.map(({ name }) => name);
  };
  const statements = async () => {
    const { rows } = await admin.query<{ query: string; calls: number }>(
      `select query, calls::int from pg_stat_statements join pg_roles r on r.oid = userid
       where r.rolname = 'waits'`,
    );
    return (words: RegExp) =>
      rows.filter(({ query }) => words.test(query)).reduce((sum, { calls }) => sum + calls, 0);
  };
  const LOOK = /with unfinished as/;
  const MARK = /set awaited/;
  const marked = async (count: number) =>
    await until(
      async () => (await bench.sql("select 1 from jobs.job where awaited")).length === count,
      { what: `${count} jobs are marked` },
    );
  const listening = async () =>
    await until(async () => (await connections()).includes("pg-jobs listen"), {
      what: "it listens",
    });

  it("cost two connections and a statement a second, and leave nothing behind", async () => {
    const jobs = await producer();
    await jobs.get("1-1");
    const made = await jobs.enqueueMany(
      "task",
      Array.from({ length: WAITERS }, () => ({ do: "nothing" })),
    );
    await admin.query("select pg_stat_statements_reset()");
    const from = performance.now();
    const answers = made.map(({ id }) => jobs.result(id, { timeout: "2m" }));
    await marked(WAITERS);
    await listening();
    await until(() => performance.now() - from > 5 * POLL_MS, { what: "five polls" });
    const idle = (performance.now() - from) / POLL_MS;
    expect(await connections()).toEqual(["pg-jobs front", "pg-jobs listen"]);
    const sent = await statements();
    // When it is called, once it listens, and each second.
    expect(sent(LOOK)).toBeGreaterThan(2);
    expect(sent(LOOK)).toBeLessThanOrEqual(Math.ceil(idle) + 4);
    expect(sent(MARK)).toBeLessThanOrEqual(3);
    await start(2);
    expect(await Promise.all(answers)).toEqual(Array.from({ length: WAITERS }, () => "done"));
    await until(async () => !(await connections()).includes("pg-jobs listen"), {
      what: "it has hung up",
    });
    // They are over, and so is all that was sent for them.
    await admin.query("select pg_stat_statements_reset()");
    const since = performance.now();
    await until(() => performance.now() - since > 3 * POLL_MS, { what: "polls would come" });
    expect((await statements())(LOOK)).toBe(0);
    expect(await bench.sql("select 1 from jobs.job where awaited")).toEqual([]);
  }, 120_000);

  it("leave nothing when they time out, and the jobs go on", async () => {
    const jobs = await producer();
    const made = await jobs.enqueueMany(
      "task",
      Array.from({ length: WAITERS }, () => ({ do: "nothing" })),
    );
    const controller = new AbortController();
    const answers = await Promise.allSettled(
      made.map(({ id }, index) =>
        index % 2
          ? jobs.result(id, { timeout: "1500ms" })
          : jobs.result(id, {
              signal: AbortSignal.any([controller.signal, AbortSignal.timeout(1_500)]),
            }),
      ),
    );
    const names = answers.map(({ status, ...rest }) =>
      status === "rejected" ? (rest as PromiseRejectedResult).reason.name : status,
    );
    expect(new Set(names)).toEqual(new Set(["JobResultTimeoutError", "TimeoutError"]));
    expect(answers[1]).toMatchObject({ reason: expect.any(JobResultTimeoutError) });
    await until(async () => !(await connections()).includes("pg-jobs listen"), {
      what: "it has hung up",
    });
    await admin.query("select pg_stat_statements_reset()");
    await start(1);
    await until(async () => (await bench.sql("select 1 from jobs.job")).length === 0, {
      what: "all have ended",
    });
    expect((await statements())(LOOK)).toBe(0);
  }, 120_000);

  it("leave a process without a timer, a socket or anything else that keeps it", async () => {
    const jobs = await producer();
    const made = await jobs.enqueueMany(
      "far",
      Array.from({ length: WAITERS }, () => ({})),
      { delay: "1h" },
    );
    const told = {
      url: producerUrl,
      schema: bench.schema,
      ids: made.map(({ id }) => id),
      timeout: "2s",
      release: path.join(root, "libs/jobs/dist"),
    };
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [path.join(root, "test/fixtures/waits.mjs"), JSON.stringify(told)],
      { timeout: 60_000 },
    );
    const { before, after, codes } = JSON.parse(stdout);
    expect({ after, codes }).toEqual({ after: before, codes: ["RESULT_TIMEOUT"] });
    await Promise.all(made.map(({ id }) => jobs.cancel(id)));
  }, 120_000);

  it("are answered by the run that rescues the job of a worker that was killed", async () => {
    await start(2);
    const [victim, survivor] = workers as [WorkerProcess, WorkerProcess];
    await survivor.seasoned();
    survivor.stop();
    const jobs = await producer();
    const { id } = await jobs.enqueue("task", { do: "gate" });
    const answer = jobs.result(id, { timeout: "1m" });
    await victim.atGate(id);
    await marked(1);
    victim.kill();
    await victim.exit();
    survivor.cont();
    await survivor.atGate(id, 2, 40_000);
    survivor.tell(id, "return");
    expect(await answer).toBe("returned by attempt 2");
  }, 120_000);

  it("are answered by the poll when LISTEN is lost without a sign", async () => {
    await start(1);
    const { proxy, url } = await bench.line();
    const heard = new URL(url);
    heard.username = heard.password = "waits";
    const jobs = await producer({ connection: { url: producerUrl, listenUrl: heard.href } });
    const gated = await Promise.all(
      Array.from({ length: 5 }, async () => await jobs.enqueue("task", { do: "gate" })),
    );
    const answers = gated.map(({ id }) => jobs.result(id, { timeout: "1m" }));
    await listening();
    await marked(gated.length);
    for (const { id } of gated) await workers[0]!.atGate(id);
    proxy.setMode("blackhole");
    const from = performance.now();
    for (const { id } of gated) workers[0]!.tell(id, "return");
    await Promise.all(answers);
    expect(performance.now() - from).toBeLessThan(SOON_MS);
    proxy.setMode("pass");
  }, 120_000);

  it("come a few milliseconds after the settle, not with the poll", async () => {
    await start(1);
    const jobs = await producer();
    const waits: number[] = [];
    // Each after the other: nobody's look serves somebody else.
    for (let n = 0; n < 40; n++) {
      const { id } = await jobs.enqueue("task", { do: "sleep", ms: 100 });
      await jobs.result(id);
      const now = Date.now();
      const [row] = await bench.sql<{ at: Date }>(
        "select finished_at as at from jobs.done where queue_id || '-' || id = $1",
        [id],
      );
      waits.push(now - row!.at.getTime());
    }
    const median = waits.toSorted((a, b) => a - b)[waits.length >> 1]!;
    expect(median).toBeLessThan(POLL_MS / 5);
  }, 120_000);
});
