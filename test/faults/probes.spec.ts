import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type PostgresServer, startPostgres } from "../../tools/postgres.mjs";
import { BuiltApp } from "../support/built-app.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// Somebody probes fifty times a second: what that costs the database.

const STORM_MS = 11_000;
const PER_SECOND = 50;

describe("a storm of probes", () => {
  let server: PostgresServer;
  let admin: pg.Client;
  let bench: Bench;
  beforeAll(async () => {
    server = await startPostgres({ settings: { shared_preload_libraries: "pg_stat_statements" } });
    admin = new pg.Client(server.url());
    await admin.connect();
    await admin.query("create extension pg_stat_statements");
    bench = await Bench.open({ url: server.url() });
  }, 60_000);
  afterAll(async () => {
    await bench.close();
    await admin.end();
    await server.stop();
  });

  /** The calls of each statement of a role since it was last asked. */
  const sent = async (role: string): Promise<Map<string, number>> => {
    const { rows } = await admin.query<{ query: string; calls: number }>(
      `select query, sum(calls)::int as calls from pg_stat_statements join pg_roles r on r.oid = userid
       where r.rolname = $1 group by 1`,
      [role],
    );
    return new Map(rows.map(({ query, calls }) => [query, calls]));
  };
  const total = (calls: Map<string, number>) => [...calls.values()].reduce((a, b) => a + b, 0);

  async function start(
    name: "worker" | "admin" | "api",
    role = `probed_${name}`,
  ): Promise<{ app: BuiltApp; port: number }> {
    await admin.query(`create role ${role} superuser login password 'probed'`);
    const url = new URL(server.url());
    url.username = role;
    url.password = "probed";
    const app = new BuiltApp(name, {
      DATABASE_URL: url.href,
      JOBS_SCHEMA: bench.schema,
      API_PORT: "0",
      WORKER_PORT: "0",
      ADMIN_PORT: "0",
      ADMIN_TOKEN: "a-token-for-the-admin",
    });
    return { app, port: await app.ready() };
  }

  /** So many a second; answers each status that came. */
  async function storm(port: number, paths: readonly string[]): Promise<Set<number>> {
    const asked: Promise<number>[] = [];
    const from = performance.now();
    for (let n = 0; performance.now() - from < STORM_MS; n++) {
      const path = paths[n % paths.length]!;
      asked.push(
        fetch(`http://127.0.0.1:${port}${path}`).then(async (answer) => {
          await answer.arrayBuffer();
          return answer.status;
        }),
      );
      await sleep(Math.max(0, from + ((n + 1) * 1_000) / PER_SECOND - performance.now()));
    }
    expect(asked.length).toBeGreaterThan((STORM_MS / 1_000) * PER_SECOND * 0.8);
    return new Set(await Promise.all(asked));
  }

  it("costs an admin app a query in ten seconds", async () => {
    const { app, port } = await start("admin");
    try {
      expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
      await admin.query("select pg_stat_statements_reset()");
      expect(await storm(port, ["/health", "/health/live"])).toEqual(new Set([200]));
      const calls = await sent("probed_admin");
      // It looks for operations on many jobs every 5 s, whether somebody probes or not.
      const probes = new Map([...calls].filter(([query]) => !/\bbulk\b/.test(query)));
      expect([...probes]).toHaveLength(1);
      expect(total(probes)).toBeLessThanOrEqual(2);
    } finally {
      await app.end();
    }
  }, 60_000);

  it("costs an api no more, and no connection that a request may need", async () => {
    const { app, port } = await start("api");
    try {
      expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
      await admin.query("select pg_stat_statements_reset()");
      expect(await storm(port, ["/health", "/health/live"])).toEqual(new Set([200]));
      const calls = await sent("probed_api");
      expect([...calls]).toHaveLength(1);
      expect(total(calls)).toBeLessThanOrEqual(2);
    } finally {
      await app.end();
    }
  }, 60_000);

  it("costs an api no more while somebody has locked what is counted, and is answered with 200", async () => {
    const { app, port } = await start("api", "probed_locked");
    const somebody = await bench.client();
    try {
      // The schema is known by then.
      expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
      await somebody.query(`begin; lock table ${bench.schema}.lane in access exclusive mode`);
      expect(await storm(port, ["/health"])).toEqual(new Set([200]));
      const waiting = `select pid, query_start from pg_stat_activity where usename = 'probed_locked' and wait_event_type = 'Lock'`;
      const counts = new Set<string>();
      const from = performance.now();
      const watching = until(
        async () => {
          for (const row of (await admin.query<{ pid: number; query_start: Date }>(waiting)).rows)
            counts.add(`${row.pid} ${row.query_start.getTime()}`);
          return performance.now() - from > STORM_MS;
        },
        { timeout: STORM_MS + 10_000, every: 100 },
      );
      expect(await storm(port, ["/health"])).toEqual(new Set([200]));
      await watching;
      expect(counts.size).toBeGreaterThan(0);
      expect(counts.size).toBeLessThanOrEqual(2);
    } finally {
      await somebody.query("rollback");
      somebody.release();
      await app.end();
    }
  }, 90_000);

  it("costs a worker none", async () => {
    const { app, port } = await start("worker");
    try {
      await until(async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok, {
        what: "it works",
        timeout: 40_000,
      });
      const during = async (work: () => Promise<unknown>) => {
        await admin.query("select pg_stat_statements_reset()");
        await work();
        return await sent("probed_worker");
      };
      // What it does in its first seconds is none of a quiet worker's business.
      await until(async () => total(await during(() => sleep(2_000))) <= 4, {
        what: "it is idle",
        timeout: 60_000,
      });
      const calls = await during(async () =>
        expect(await storm(port, ["/readyz", "/livez"])).toEqual(new Set([200])),
      );
      // A look every 2 s, a beat, duties; 550 probes.
      expect(total(calls)).toBeLessThan(25);
    } finally {
      await app.end();
    }
  }, 150_000);
});
