// A PostgreSQL server of our own for `npm start` and the tests: real binaries from npm, nothing to
// install, loopback only, with a password.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { chownTree } from "./postgres/files.mjs";
import { endServer, freePort, readPidFile, serves, signal, waitFor } from "./processes.mjs";
import { chooseRuntime, stashedDataDir } from "./postgres/runtime.mjs";

const HOST = "127.0.0.1";
const LOOK_EVERY = 500;
const passwordFile = (dataDir) => path.join(dataDir, "launcher-password");
const logFile = (dataDir) => path.join(dataDir, "launcher.log");

/**
 * Without `dataDir` the data is temporary and goes when the server stops or this process ends, even
 * by SIGKILL. `major` = 14 is the oldest PostgreSQL that is served. With `dataDir` it stays; a server that a killed launcher left on it is taken over.
 */
export async function startPostgres({
  dataDir,
  port,
  major,
  durable = false,
  log = () => {},
  settings = {},
} = {}) {
  const temporary = dataDir === undefined;
  if (temporary) dataDir = mkdtempSync(path.join(tmpdir(), "jobs-pg-"));
  else mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  dataDir = realpathSync(dataDir); // the name that the server is found by later
  try {
    const left = temporary ? undefined : await takeOver([dataDir, stashedDataDir(dataDir)], log);
    if (left) return handle(left);
    const runtime = chooseRuntime(dataDir, major);
    if (runtime.note) log(`postgres ${runtime.note}`);
    if (runtime.dataDir !== dataDir) log(`postgres keeps its data in ${runtime.dataDir}`);
    initialise(runtime, durable, major === undefined);
    const started = await launch(runtime, { port, durable, settings });
    const watchdog = temporary ? startWatchdog(started.pid, runtime.dataDir) : undefined;
    return handle({ ...started, dataDir: runtime.dataDir, watchdog });
  } catch (error) {
    if (temporary) rmSync(dataDir, { recursive: true, force: true });
    throw error;
  }
}

function handle({ pid, port, dataDir, watchdog }) {
  const password = readFileSync(passwordFile(dataDir), "utf8");
  // last resort: this process ends without a call of stop()
  const onExit = () => signal(pid, "SIGINT");
  process.once("exit", onExit);
  // looked for by its pid: one that was taken over is no child of ours
  const gone = (async () => {
    while (serves(pid, dataDir)) await sleep(LOOK_EVERY, undefined, { ref: false });
    process.off("exit", onExit); // the pid may be somebody else's by then
  })();
  return {
    pid,
    port,
    dataDir,
    gone,
    url: (database = "postgres") => `postgres://postgres:${password}@${HOST}:${port}/${database}`,
    async stop({ mode = "fast" } = {}) {
      process.off("exit", onExit);
      if (serves(pid, dataDir)) await endServer(pid, dataDir, mode);
      if (!watchdog) return;
      watchdog.kill("SIGKILL");
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Finds the server that an earlier launcher left behind: takes it over, or ends it. */
async function takeOver(folders, log) {
  for (const dataDir of folders) {
    const found = readPidFile(dataDir);
    if (!found) continue;
    const { pid } = found;
    const gone = () => !serves(pid, dataDir);
    // it may be on its way up, or down
    await waitFor(() => gone() || readPidFile(dataDir)?.ready, 5_000);
    if (gone()) {
      // its pid may be somebody else's by now, and then the server would refuse to start
      rmSync(path.join(dataDir, "postmaster.pid"), { force: true });
      continue;
    }
    const { port } = readPidFile(dataDir) ?? found;
    if (await answers(dataDir, port)) {
      log(`postgres of an earlier start still runs (pid ${pid}): taken over`);
      return { pid, port, dataDir };
    }
    log(`postgres of an earlier start does not answer (pid ${pid}): ended`);
    await endServer(pid, dataDir, "immediate");
  }
  return undefined;
}

async function answers(dataDir, port) {
  const { default: pg } = await import("pg");
  const password = readFileSync(passwordFile(dataDir), "utf8");
  const client = new pg.Client({
    host: HOST,
    port,
    user: "postgres",
    database: "postgres",
    password,
    connectionTimeoutMillis: 3_000,
    query_timeout: 3_000,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query("SHOW data_directory");
    return rows[0].data_directory === dataDir;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Makes the data folder in a draft, so that a start that was cut off leaves no half of it. */
function initialise(runtime, durable, newest) {
  const { dataDir, owner } = runtime;
  const version = path.join(dataDir, "PG_VERSION");
  if (existsSync(version)) {
    // made by a start that ran the server as somebody else
    if (owner && statSync(version).uid !== owner.uid) chownTree(dataDir, owner);
    return;
  }
  const draft = path.join(dataDir, "..", `.${path.basename(dataDir)}.draft`);
  const password = `${draft}-password`;
  rmSync(draft, { recursive: true, force: true, maxRetries: 5 });
  rmSync(password, { force: true });
  renameSync(dataDir, draft); // empty, and already owned by the server's user
  writeFileSync(password, randomBytes(18).toString("hex"), { mode: 0o600 });
  if (owner) chownSync(password, owner.uid, owner.gid);

  const args = ["-D", draft, "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-instructions"];
  args.push("-A", "scram-sha-256", `--pwfile=${password}`);
  // the password is long and random: more rounds only make each connection slower (since PostgreSQL 16)
  if (newest) args.push("-c", "scram_iterations=1");
  if (!durable) args.push("--no-sync");
  const { status, stderr, error } = runtime.runSync(runtime.binary("initdb"), args);
  if (status !== 0) throw new Error(`initdb failed: ${error?.message ?? stderr}`);
  renameSync(password, passwordFile(draft));
  renameSync(draft, dataDir);
}

async function launch(runtime, { port = () => freePort(HOST), durable, settings }) {
  const end = Date.now() + 30_000;
  for (;;) {
    const chosen = typeof port === "function" ? await port() : port;
    const { pid, failure } = await launchOnce(runtime, { port: chosen, durable, settings });
    if (pid) return { pid, port: chosen };
    // after a SIGKILL of the old server its children hold the shared memory for another moment;
    // and a port that was free may be taken now
    const passes = /pre-existing shared memory|lock file .* already exists/.test(failure);
    const lostPort = chosen !== port && /could not (bind|create any TCP)/.test(failure);
    if (!(passes || lostPort) || Date.now() > end) {
      throw new Error(`PostgreSQL did not start on port ${chosen}:\n${failure}`);
    }
    await sleep(200);
  }
}

async function launchOnce(runtime, { port, durable, settings }) {
  const { dataDir } = runtime;
  const flags = {
    listen_addresses: HOST,
    unix_socket_directories: "",
    max_connections: 200,
    ...(durable ? {} : { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
    ...settings,
  };
  const args = ["-D", dataDir, "-p", String(port)];
  for (const [name, value] of Object.entries(flags)) args.push("-c", `${name}=${value}`);

  // Into a file: a pipe would break when the launcher dies and the server lives on.
  const output = openSync(logFile(dataDir), "w", 0o600);
  // Detached: a Ctrl-C in the terminal reaches the launcher alone, which stops the server last.
  const server = spawn(...runtime.command(runtime.binary("postgres"), args), {
    ...runtime.options,
    detached: true,
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  server.unref();
  let ended;
  server.once("error", (error) => (ended = error.message));
  server.once("exit", (code, name) => (ended = `ended with ${name ?? code}`));
  const ready = () => {
    const said = readPidFile(dataDir);
    return said?.pid === server.pid && said.ready;
  };
  await waitFor(() => ended || ready(), 60_000);
  if (!ended && ready()) return { pid: server.pid };
  server.kill("SIGKILL");
  const tail = readFileSync(logFile(dataDir), "utf8").slice(-2_000);
  return { failure: `${ended ?? "not ready after 60 s"}\n${tail}` };
}

/** Ends a temporary server when this process dies, however it dies: then its pipe closes. */
export function startWatchdog(pid, dataDir) {
  const script = `cat >/dev/null; kill -QUIT "$1" 2>/dev/null; sleep 1; rm -rf "$2"`;
  const watchdog = spawn("/bin/sh", ["-c", script, "sh", String(pid), dataDir], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  watchdog.unref();
  watchdog.stdin.unref();
  return watchdog;
}
