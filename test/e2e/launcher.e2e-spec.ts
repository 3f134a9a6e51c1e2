import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { isAlive, LauncherFolder } from "../support/launcher.js";
import { until } from "../support/until.js";

const POSTGRES = /^postgres (postgres:.*)/;
const READY = /^admin http/;

let folder: LauncherFolder;
beforeEach(() => {
  folder = new LauncherFolder();
});
afterEach(() => folder.remove());

async function query(url: string, sql: string) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 15_000 });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

function postmaster(): number {
  return Number(
    readFileSync(path.join(folder.path, "data/pg/postmaster.pid"), "utf8").split("\n")[0],
  );
}

async function listener(port: number) {
  const server = createServer();
  server.listen(port, "127.0.0.1");
  await Promise.race([once(server, "listening"), once(server, "error")]);
  return { port: (server.address() as AddressInfo | null)?.port, close: () => server.close() };
}

describe("npm start", () => {
  it("prints where everything is, and stops the worker first and PostgreSQL last", async () => {
    const launcher = folder.start({ FAKE_DRAIN: "800" });
    await launcher.line(/^first job succeeded after \d+\.\d s$/);
    await launcher.line(/^\[api\] POST \/reminders \{"to":"\w+@example\.com","text":".+"\}$/);
    const api = await launcher.line(/^api (http:\/\/127\.0\.0\.1:\d+)$/);
    const worker = await launcher.line(/^worker (http:\/\/127\.0\.0\.1:\d+\/readyz)$/);
    const admin = await launcher.line(/^admin (http:\/\/127\.0\.0\.1:\d+\/admin) token \S{32}$/);
    for (const url of [api, worker, admin]) expect((await fetch(url)).status).toBe(200);
    const url = await launcher.line(POSTGRES);
    await expect(query(url, "SHOW fsync")).resolves.toEqual([{ fsync: "on" }]);

    launcher.kill("SIGINT");
    await expect(launcher.exit()).resolves.toBe(0);
    const at = (text: string) => launcher.lines.indexOf(text);
    expect(at("[worker] stopped, postgres is up")).toBeGreaterThan(at("[worker] drains"));
    expect(at("[api] drains")).toBeGreaterThan(at("[worker] stopped, postgres is up"));
    expect(at("[api] stopped, postgres is up")).toBeGreaterThan(0);
    expect(at("[admin] stopped, postgres is up")).toBeGreaterThan(0);
    expect(launcher.lines).toContain("[migrate] migrate: jobs ok");
    expect(launcher.output.match(/first job/g)).toHaveLength(1);
    await expect(query(url, "SELECT 1")).rejects.toThrow(/ECONNREFUSED/);
  });

  it("ends at once on the second Ctrl-C", async () => {
    const launcher = folder.start({ FAKE_DRAIN: "60000" });
    const pids = await launcher.pids();
    await launcher.line(READY);
    const started = performance.now();
    launcher.kill("SIGINT");
    launcher.kill("SIGINT"); // npm passes the first one on as well
    await launcher.line(/^\[worker\] drains/);
    await sleep(900);
    expect(launcher.over).toBe(false);
    launcher.kill("SIGINT");
    await expect(launcher.exit()).resolves.toBe(0);
    expect(performance.now() - started).toBeLessThan(30_000);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it("stops cleanly in the middle of its start", async () => {
    const launcher = folder.start();
    await launcher.line(/^postgres (?:runs|postgres)/);
    launcher.kill("SIGTERM");
    await expect(launcher.exit()).resolves.toBe(0);
    await expect(folder.start().line(READY)).resolves.toBeTruthy();
  });

  it("starts again after a SIGKILL of the launcher alone, with the server it left", async () => {
    const first = folder.start();
    const pids = await first.pids();
    await first.line(READY);
    const url = await first.line(POSTGRES);
    await query(url, "CREATE TABLE kept AS SELECT 42 AS answer");
    const server = postmaster();
    first.kill("SIGKILL");
    await first.exit();

    const second = folder.start();
    await second.line(READY);
    expect(second.output).toContain(`still runs (pid ${server}): taken over`);
    await until(() => !pids.some(isAlive), { what: "the apps have ended by themselves" });
    const again = await second.line(POSTGRES);
    await expect(query(again, "SELECT * FROM kept")).resolves.toEqual([{ answer: 42 }]);
    second.kill("SIGINT");
    await expect(second.exit()).resolves.toBe(0);
    await until(() => !isAlive(server), { what: "the server has ended" });
  });

  it("starts again after a SIGKILL of everything", async () => {
    const first = folder.start();
    const pids = await first.pids();
    await first.line(READY);
    await query(await first.line(POSTGRES), "CREATE TABLE kept AS SELECT 42 AS answer");
    first.kill("SIGKILL");
    for (const pid of [postmaster(), ...pids]) process.kill(pid, "SIGKILL");

    const second = folder.start();
    await second.line(READY);
    const url = await second.line(POSTGRES);
    await expect(query(url, "SELECT * FROM kept")).resolves.toEqual([{ answer: 42 }]);
  });

  it("starts again after a SIGKILL of npm", async () => {
    const first = folder.startUnderParent({ FAKE_DRAIN: "60000" });
    await first.line(READY);
    first.kill("SIGKILL");
    await first.line(/^stopping;/);
    const second = folder.start();
    // Sooner than the one before would have drained, in a minute.
    await second.line(READY);
    expect(second.output).toMatch(/waits for the npm start that is stopping/);
  });

  it("shows the output of an app that cannot start, and stops the rest", async () => {
    const launcher = folder.start({ FAKE_BROKEN: "worker" });
    await expect(launcher.exit()).resolves.toBe(1);
    expect(launcher.lines).toContain("[worker] cannot find my configuration");
    expect(launcher.lines).toContain("worker ended at start (exit code 3)");
    expect(launcher.output).not.toMatch(/^\s+at /m);
    expect(() => postmaster()).toThrow(/ENOENT/);
  });

  it("starts an app again that crashed later", async () => {
    const launcher = folder.start();
    await launcher.line(READY);
    const [, worker] = await launcher.pids();
    process.kill(worker!, "SIGKILL");
    await launcher.line(/^worker ended with SIGKILL; starts again$/);
    const pids = () => launcher.output.match(/^\[worker\] pid/gm);
    await until(() => pids()?.length === 2, { what: "the worker is back" });
    expect(launcher.over).toBe(false);
  });

  it("starts PostgreSQL again that ended under it, where the apps look for it", async () => {
    const launcher = folder.start();
    const url = await launcher.line(POSTGRES);
    await launcher.line(READY);
    await query(url, "CREATE TABLE kept AS SELECT 42 AS answer");
    for (const again of [1, 2]) {
      const killed = postmaster();
      process.kill(killed, "SIGKILL");
      const said = () => launcher.output.match(/^postgres is up again$/gm)?.length === again;
      await until(said, { timeout: 30_000, what: "it is up again" });
      expect(launcher.output.match(/^postgres has ended; starts again$/gm)).toHaveLength(again);
      expect(postmaster()).not.toBe(killed);
      await expect(query(url, "SELECT * FROM kept")).resolves.toEqual([{ answer: 42 }]);
    }
    expect(launcher.over).toBe(false);
    const last = postmaster();
    launcher.kill("SIGINT");
    await expect(launcher.exit()).resolves.toBe(0);
    expect(launcher.lines).toContain("[worker] stopped, postgres is up");
    await until(() => !isAlive(last), { what: "the server has ended" });
  });

  it("notices that a server ended which it had taken over", async () => {
    const first = folder.start();
    await first.line(READY);
    first.kill("SIGKILL");
    await first.exit();
    const second = folder.start();
    const url = await second.line(POSTGRES);
    await second.line(READY);
    process.kill(postmaster(), "SIGKILL");
    await second.line(/^postgres is up again$/);
    await expect(query(url, "SELECT 1 AS one")).resolves.toEqual([{ one: 1 }]);
  });

  it("shuts everything down when PostgreSQL ended and cannot be started again", async () => {
    const launcher = folder.start();
    const pids = await launcher.pids();
    await launcher.line(READY);
    writeFileSync(path.join(folder.path, "data/pg/postgresql.conf"), "no_such_setting = 1");
    process.kill(postmaster(), "SIGKILL");
    await expect(launcher.exit()).resolves.toBe(1);
    expect(launcher.output).toMatch(/^PostgreSQL did not start on port \d+:$/m);
    expect(launcher.output).toContain("no_such_setting");
    expect(launcher.output).not.toMatch(/^\s+at /m);
    expect(pids.filter(isAlive)).toEqual([]);
    rmSync(path.join(folder.path, "data/pg/postmaster.pid"), { force: true });
  });

  it("refuses to run twice on the same data", async () => {
    const launcher = folder.start();
    await launcher.line(READY);
    const second = folder.start();
    await expect(second.exit()).resolves.toBe(1);
    expect(second.output).toMatch(/^npm start already runs here \(pid \d+\); stop it first\n$/);
    await expect(query(await launcher.line(POSTGRES), "SELECT 1")).resolves.toHaveLength(1);
  });
});

describe("npm start with a DATABASE_URL", () => {
  const given = process.env.DATABASE_URL!;

  it("names host and database first, and starts no server", async () => {
    const launcher = folder.start({ DATABASE_URL: given, ADMIN_TOKEN: "secret", JOBS_SCHEMA: "j" });
    await launcher.line(READY);
    const { host, pathname, password } = new URL(given);
    expect(launcher.lines[0]).toBe(`host ${host} database ${pathname.slice(1)}`);
    expect(launcher.lines).toContain("[migrate] migrate: j ok");
    expect(launcher.output).toMatch(/^admin \S+ token from ADMIN_TOKEN$/m);
    if (password) expect(launcher.output).not.toContain(password);
    expect(() => postmaster()).toThrow(/ENOENT/);
    await launcher.end();
    await expect(query(given, "SELECT 1 AS one")).resolves.toEqual([{ one: 1 }]);
  });

  it("shows no password that stands in the query", async () => {
    const url = new URL(given);
    url.searchParams.set("user", url.username);
    url.searchParams.set("password", "hunter2");
    url.username = url.password = "";
    const launcher = folder.start({ DATABASE_URL: url.href, ADMIN_TOKEN: "secret" });
    await launcher.line(READY);
    expect(launcher.lines[0]).toBe(`host ${url.host} database ${url.pathname.slice(1)}`);
    expect(launcher.lines).toContain(`postgres ${url.protocol}//${url.host}${url.pathname}?…`);
    expect(launcher.output).not.toContain("hunter2");
  });

  it.each([
    ["user:hunter2@host/database", "another string"],
    ["postgres://user:hunter2/x@host/database", "a / or ? before it"],
    ["postgres://user:hun#ter2@host/database", "no raw #"],
  ])("that is malformed is refused and not shown: %s", async (url, found) => {
    const launcher = folder.start({ DATABASE_URL: url });
    await expect(launcher.exit()).resolves.toBe(1);
    expect(launcher.output).toContain("DATABASE_URL: expected");
    expect(launcher.output).toContain(found);
    expect(launcher.output).not.toContain("ter2");
    expect(launcher.output).not.toContain("at file:");
  });

  it("takes the next free port when a default one is taken", async () => {
    const taken = await listener(3000);
    const launcher = folder.start({ DATABASE_URL: given, API_PORT: "", ADMIN_PORT: "" });
    const port = Number(await launcher.line(/^api http:\/\/127\.0\.0\.1:(\d+)$/));
    taken.close();
    expect(port).toBeGreaterThan(3001); // 3001 is the admin's
    expect(port).toBeLessThan(3200);
  });

  it("has the worker read the feed of its api, another one, or none", async () => {
    const launcher = folder.start({ DATABASE_URL: given, API_PORT: "", ADMIN_PORT: "" });
    const api = await launcher.line(/^api (http:.*)$/);
    await launcher.line(new RegExp(`^\\[worker\\] reads ${api}/feeds/news$`));
    await launcher.end();
    for (const said of ["http://localhost:1/feed", ""]) {
      const next = folder.start({ DATABASE_URL: given, API_PORT: "", FEED_SOURCES: said });
      await next.line(new RegExp(`^\\[worker\\] reads ${said}$`));
      await next.end();
    }
  });

  it("insists on an explicit port", async () => {
    const taken = await listener(0);
    const launcher = folder.start({ DATABASE_URL: given, API_PORT: String(taken.port) });
    await expect(launcher.exit()).resolves.toBe(1);
    taken.close();
    expect(launcher.output).toBe(`API_PORT: port ${taken.port} is taken\n`);
  });
});
