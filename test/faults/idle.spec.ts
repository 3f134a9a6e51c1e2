import { readFileSync } from "node:fs";
import pg from "pg";
import { type PostgresServer, startPostgres } from "../../tools/postgres.mjs";
import { BuiltApp } from "../support/built-app.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const IDLE_MS = 60_000;
// Rounds of the minute, and duties of ten minutes and an hour that may all fall into it.
const MAX_STATEMENTS = 52;
const MAX_RESIDENT_MB = 130;

/** One worker process under a role of its own, so that all of its statements can be told from the others'. */
interface Idler {
  what: string;
  bench: Bench;
  role: string;
  pid: number;
  end(): Promise<unknown>;
}

describe("a worker with nothing to do", () => {
  let server: PostgresServer;
  let admin: pg.Client;
  let ledger: Ledger;
  const idlers: Idler[] = [];

  beforeAll(async () => {
    server = await startPostgres({ settings: { shared_preload_libraries: "pg_stat_statements" } });
    admin = new pg.Client(server.url());
    await admin.connect();
    await admin.query("create extension pg_stat_statements");
    ledger = new Ledger();
    for (const queues of [1, 50]) idlers.push(await begin(queues));
    idlers.push(await beginApp());
  }, 180_000);
  afterAll(async () => {
    await Promise.all(idlers.map((one) => one.end()));
    await Promise.all(idlers.map(({ bench }) => bench.close()));
    await admin.end();
    await server.stop();
    ledger.remove();
  }, 90_000);

  /** Each of its queues has had a job. */
  async function begin(queues: number): Promise<Idler> {
    const role = `idle_${queues}`;
    const url = await urlOf(role);
    const bench = await Bench.open({ url: server.url() });
    const names = ["default", ...Array.from({ length: queues - 1 }, (_, i) => `queue-${i}`)];
    const worker = WorkerProcess.start({
      url,
      schema: bench.schema,
      ledger,
      queues: Object.fromEntries(names.map((name) => [name, {}])),
      lease: "30s",
      poll: "2s",
    });
    const jobs = await bench.producer();
    for (const queue of names) await jobs.enqueue("noop", {}, { queue });
    await worker.ready();
    await until(async () => (await bench.states()).succeeded === queues, {
      timeout: 40_000,
      what: "it has worked",
    });
    await rolledUp(bench);
    return { what: `${queues} queues`, bench, role, pid: worker.pid, end: () => worker.end() };
  }

  /** The sample worker, as it is deployed. */
  async function beginApp(): Promise<Idler> {
    const role = "idle_app";
    const bench = await Bench.open({ url: server.url() });
    const app = new BuiltApp("worker", {
      DATABASE_URL: await urlOf(role),
      JOBS_SCHEMA: bench.schema,
      WORKER_PORT: "0",
    });
    const port = await app.ready();
    // It listens before it has begun: what it sends until then is no idleness.
    await until(async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok, {
      timeout: 40_000,
      what: "it works",
    });
    await until(
      async () =>
        (
          await admin.query(
            "select 1 from pg_stat_activity where usename = $1 and application_name = 'pg-jobs listen' and query like 'listen probe%' and state = 'idle'",
            [role],
          )
        ).rows.length > 0,
      { what: "it listens to others" },
    );
    await rolledUp(bench);
    return { what: "apps/worker", bench, role, pid: app.child.pid!, end: () => app.end() };
  }

  async function urlOf(role: string): Promise<string> {
    await admin.query(`create role ${role} superuser login password 'idle'`);
    const url = new URL(server.url());
    url.username = role;
    url.password = "idle";
    return url.href;
  }

  /** The counters of earlier work are summed up once more. */
  const rolledUp = async (bench: Bench) =>
    await until(async () => (await bench.sql("select from jobs.stat_delta limit 1")).length === 0, {
      what: "its duties are done",
    });

  const statements = async (role: string) => {
    const { rows } = await admin.query<{ query: string; calls: number }>(
      `select query, calls::int from pg_stat_statements join pg_roles r on r.oid = userid
       where r.rolname = $1 order by calls desc`,
      [role],
    );
    return rows;
  };

  it(
    "sends as little with 50 queues as with one, and is small",
    async () => {
      await admin.query("select pg_stat_statements_reset()");
      const since = performance.now();
      await until(() => performance.now() - since >= IDLE_MS, {
        timeout: IDLE_MS + 30_000,
        every: 100,
        what: "a minute is over",
      });
      for (const { what, role } of idlers) {
        const sent = await statements(role);
        const calls = sent.reduce((sum, one) => sum + one.calls, 0);
        // It looks every 2 s: fewer would mean that it does not.
        expect(calls).toBeGreaterThan(25);
        expect({ what, many: calls > MAX_STATEMENTS && sent }).toEqual({ what, many: false });
      }
      for (const { what, pid } of idlers) {
        const megabytes = () => {
          const status = readFileSync(`/proc/${pid}/status`, "utf8");
          return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024;
        };
        // What the boot has left is given back by V8 when it sees fit: nearly always within the minute.
        await until(() => megabytes() <= MAX_RESIDENT_MB, { timeout: IDLE_MS, every: 500 }).catch(
          () => undefined,
        );
        const large = megabytes() > MAX_RESIDENT_MB && megabytes();
        expect({ what, large }).toEqual({ what, large: false });
      }
    },
    5 * IDLE_MS,
  );
});
