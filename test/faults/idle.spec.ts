import { readFileSync } from "node:fs";
import pg from "pg";
import { type PostgresServer, startPostgres } from "../../tools/postgres.mjs";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

const IDLE_MS = 60_000;
const MAX_STATEMENTS = 45;
const MAX_RESIDENT_MB = 130;

/** One worker process under a role of its own, so that all of its statements can be told from the others'. */
interface Idler {
  queues: number;
  bench: Bench;
  role: string;
  worker: WorkerProcess;
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
  }, 60_000);
  afterAll(async () => {
    await Promise.all(idlers.map(({ worker }) => worker.end()));
    await Promise.all(idlers.map(({ bench }) => bench.close()));
    await admin.end();
    await server.stop();
    ledger.remove();
  }, 30_000);

  /** Each of its queues has had a job. */
  async function begin(queues: number): Promise<Idler> {
    const role = `idle_${queues}`;
    await admin.query(`create role ${role} superuser login password 'idle'`);
    const url = new URL(server.url());
    url.username = role;
    url.password = "idle";
    const bench = await Bench.open({ url: server.url() });
    const names = ["default", ...Array.from({ length: queues - 1 }, (_, i) => `queue-${i}`)];
    const worker = WorkerProcess.start({
      url: url.href,
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
      timeout: 20_000,
      what: "it has worked",
    });
    // The counters of that work are summed up once more.
    await until(
      async () => {
        const rows = await bench.sql("select from jobs.stat_delta limit 1");
        return rows.length === 0;
      },
      { what: "its duties are done" },
    );
    return { queues, bench, role, worker };
  }

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
        timeout: IDLE_MS + 5_000,
        every: 100,
        what: "a minute is over",
      });
      for (const { queues, role, worker } of idlers) {
        const sent = await statements(role);
        const calls = sent.reduce((sum, one) => sum + one.calls, 0);
        // It looks every 2 s: fewer would mean that it does not.
        expect(calls).toBeGreaterThan(25);
        expect({ queues, many: calls > MAX_STATEMENTS && sent }).toEqual({ queues, many: false });
        const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(
          readFileSync(`/proc/${worker.pid}/status`, "utf8"),
        )!;
        expect(Number(kilobytes) / 1024).toBeLessThan(MAX_RESIDENT_MB);
      }
    },
    IDLE_MS + 15_000,
  );
});
