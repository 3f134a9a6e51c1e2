import { randomBytes } from "node:crypto";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import pg from "pg";
import { BuiltApp } from "../support/built-app.js";
import { Bench, databaseUrl } from "../support/harness.js";
import { ADMIN_TOKEN } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The sample apps as processes: what they say when they cannot start, and how they end.

const NAMES = ["api", "worker", "admin"] as const;
const PORTS = { api: "API_PORT", worker: "WORKER_PORT", admin: "ADMIN_PORT" };

let started: BuiltApp[] = [];
const start = (name: (typeof NAMES)[number], env: Record<string, string | undefined>) => {
  const app = new BuiltApp(name, {
    ADMIN_TOKEN,
    API_PORT: "0",
    WORKER_PORT: "0",
    ADMIN_PORT: "0",
    ...env,
  });
  started.push(app);
  return app;
};
afterEach(async () => {
  await Promise.all(started.map((app) => app.end()));
  started = [];
});

describe("the environment", () => {
  it("is told with all problems at once, and without secrets", async () => {
    const secret = "s3cr3t";
    const env = {
      DATABASE_URL: `mysql://u:${secret}@h/d`,
      ADMIN_TOKEN: secret,
      JOBS_SCHEMA: "A b",
    };
    const worker = { THUMBNAIL_ATTEMPTS: "0", THUMBNAIL_RETRY_DELAY: "soon", WORKER_PORT: "65536" };
    const problems = {
      api: ["DATABASE_URL", "JOBS_SCHEMA"],
      worker: [
        "DATABASE_URL",
        "JOBS_SCHEMA",
        "WORKER_PORT",
        "THUMBNAIL_ATTEMPTS",
        "THUMBNAIL_RETRY_DELAY",
      ],
      admin: ["DATABASE_URL", "JOBS_SCHEMA", "ADMIN_TOKEN"],
    };
    for (const name of NAMES) {
      const app = start(name, { ...env, ...worker });
      expect(await app.exit()).toBe(1);
      const lines = app.output.trim().split("\n");
      expect(lines[0]).toBe("The environment has problems:");
      expect(lines.slice(1)).toEqual(
        problems[name].map((one) => expect.stringMatching(`^  - ${one}: expected .+`)),
      );
      expect(app.output).not.toContain(secret);
    }
  });

  it("needs a database and, for admin, a token", async () => {
    const app = start("admin", { ADMIN_TOKEN: "" });
    expect(await app.exit()).toBe(1);
    expect(app.output).toMatch(/DATABASE_URL: expected a URL .*, found none/);
    expect(app.output).toMatch(/ADMIN_TOKEN: expected at least 16 characters, found none/);
  });
});

describe("with a database", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());
  const env = () => ({ DATABASE_URL: bench.url, JOBS_SCHEMA: bench.schema });

  it.each(NAMES)("%s says that its port is taken, and ends with 1", async (name) => {
    const server = createServer().listen(0, "127.0.0.1");
    await until(() => server.listening);
    const port = String((server.address() as AddressInfo).port);
    const app = start(name, { ...env(), [PORTS[name]]: port });
    expect(await app.exit()).toBe(1);
    expect(app.output).toMatch(new RegExp(`ERROR .*(\\n.*)?[Pp]ort ${port} .*127\\.0\\.0\\.1`));
    expect(app.output).toMatch(/is taken|another process has it/);
    expect(app.output).not.toMatch(/^ +at /m);
    expect(app.messages).toEqual([]);
    server.close();
  });

  it.each(NAMES)("%s ends by itself, with 0, when its launcher is gone", async (name) => {
    const app = start(name, env());
    expect(await app.ready()).toBeGreaterThan(0);
    app.child.disconnect();
    expect(await app.exit()).toBe(0);
  });

  it.each(NAMES)("%s ends with 0 on SIGTERM", async (name) => {
    const app = start(name, env());
    await app.ready();
    app.child.kill("SIGTERM");
    expect(await app.exit()).toBe(0);
  });

  it("the api ends with 0 on SIGTERM while it waits for its database", async () => {
    const { proxy, url } = await bench.line();
    proxy.setMode("blackhole");
    const app = start("api", { ...env(), DATABASE_URL: url });
    await until(() => proxy.connections > 0, { what: "it waits for its database" });
    const from = performance.now();
    app.child.kill("SIGTERM");
    expect(await app.exit()).toBe(0);
    expect(performance.now() - from).toBeLessThan(5_000);
    expect(app.messages).toEqual([]);
  });

  it("the worker tells of its first job", async () => {
    const api = start("api", env());
    const worker = start("worker", env());
    const url = `http://127.0.0.1:${await api.ready()}/reminders`;
    await worker.ready();
    const post = async () => {
      const body = JSON.stringify({ to: "ada@example.com", text: "Tea" });
      const headers = { "content-type": "application/json" };
      return (await (await fetch(url, { method: "POST", headers, body })).json()) as {
        jobId: string;
      };
    };
    const { jobId } = await post();
    const second = await post();
    expect((await worker.message("succeeded")).id).toMatch(/^\d+-\d+$/);
    for (const id of [jobId, second.jobId])
      await until(async () => (await bench.state(id)) === "succeeded");
    expect(worker.messages.filter(({ type }) => type === "succeeded")).toHaveLength(1);
  });

  it("thumbnails fail with a stack, after the attempts and delay that the environment says", async () => {
    const api = start("api", env());
    const more = { THUMBNAIL_ATTEMPTS: "2", THUMBNAIL_RETRY_DELAY: "50ms" };
    const worker = start("worker", { ...env(), ...more });
    const url = `http://127.0.0.1:${await api.ready()}/thumbnails`;
    for (let n = 0; n < 40; n++) {
      const body = JSON.stringify({ imageUrl: `https://example.com/${n}.jpg` });
      await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
    }
    const states = async () =>
      await bench.sql<{ state: string; n: number }>(
        "select state, count(*)::int as n from jobs.job_status where queue = 'media' group by 1",
      );
    await until(
      async () => (await states()).every(({ state }) => state === "succeeded" || state === "dead"),
      { what: "all are done" },
    );
    const [dead] = await bench.sql<{ id: string; failures: number; last_error: string }>(
      "select id, failures, last_error from jobs.job_status where queue = 'media' and state = 'dead'",
    );
    expect(dead).toMatchObject({ failures: 2, last_error: "the image cannot be decoded" });
    const [letter] = await bench.sql<{ errors: { error: object }[] }>(
      "select errors from jobs.dead where queue_id || '-' || id = $1",
      [dead!.id],
    );
    expect(letter!.errors).toHaveLength(2);
    expect(letter!.errors[0]!.error).toMatchObject({
      name: "ImageBrokenError",
      stack: expect.stringContaining("decode.js"),
      cause: { name: "RangeError", message: expect.stringMatching(/^end of data at byte \d+$/) },
    });
    expect(worker.output).toMatch(/Makes a thumbnail .*attempt: '1\/2'/);
    expect(worker.output).toMatch(/Makes a thumbnail .*attempt: '2\/2'/);
  });
});

describe("a database of somebody else", () => {
  const name = `foreign_${randomBytes(4).toString("hex")}`;
  const url = new URL(databaseUrl());
  url.pathname = `/${name}`;
  const run = async (connectionString: string, text: string) => {
    const client = new pg.Client({ connectionString });
    await client.connect();
    try {
      return (await client.query<{ schema: string; name: string }>(text)).rows;
    } finally {
      await client.end();
    }
  };
  beforeAll(async () => await run(databaseUrl(), `create database ${name}`));
  afterAll(async () => {
    await Promise.all(started.map((app) => app.end()));
    await run(databaseUrl(), `drop database ${name} with (force)`);
  });

  it("gets objects in samples alone from three apps that start at once, and again", async () => {
    for (let turn = 0; turn < 2; turn++) {
      const apps = (["api", "worker", "api"] as const).map((app) =>
        start(app, { DATABASE_URL: url.href }),
      );
      await Promise.all(apps.map((app) => app.ready()));
      for (const app of apps) app.child.kill("SIGTERM");
      for (const app of apps) expect(await app.exit()).toBe(0);
    }
    expect(
      await run(
        url.href,
        `select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') and c.relkind = 'r'
         union all select 'extension', extname from pg_extension where extname <> 'plpgsql'
         order by 1, 2`,
      ),
    ).toEqual([
      { schema: "samples", name: "feed_item" },
      { schema: "samples", name: "migration" },
      { schema: "samples", name: "record" },
      { schema: "samples", name: "reminder" },
    ]);
  }, 60_000);
});
