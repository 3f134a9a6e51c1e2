// PgBouncer in front of a PostgreSQL of ours, for the specs: Debian's package, loopback only, its own folder.
import { spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { startWatchdog } from "./postgres.mjs";
import { isRoot, unprivilegedUser } from "./postgres/runtime.mjs";
import { freePort, signal, waitFor } from "./processes.mjs";

const HOST = "127.0.0.1";
const PLACES = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];

/** The program; undefined where it is not installed. */
export const pgbouncer = PLACES.find((place) => existsSync(place));

/**
 * In front of the server of `url`, whose user and password it uses for everybody. `settings` are lines of
 * pgbouncer.ini; by default a transaction pool of 2 connections per database.
 */
export async function startPgbouncer({ url, settings = {} }) {
  if (!pgbouncer) throw new Error("pgbouncer is not installed: apt-get install pgbouncer");
  const server = new URL(url);
  const folder = mkdtempSync(path.join(tmpdir(), "jobs-pgbouncer-"));
  const user = isRoot() ? unprivilegedUser() : undefined;
  const port = await freePort(HOST);
  const users = path.join(folder, "users.txt");
  const ini = path.join(folder, "pgbouncer.ini");
  const name = decodeURIComponent(server.username);
  const password = decodeURIComponent(server.password);
  const lines = {
    listen_addr: HOST,
    listen_port: port,
    unix_socket_dir: "",
    auth_type: "plain",
    auth_file: users,
    admin_users: name,
    pool_mode: "transaction",
    default_pool_size: 2,
    max_client_conn: 1000,
    server_login_retry: 1,
    logfile: path.join(folder, "log"),
    ...settings,
  };
  writeFileSync(users, `"${name}" "${password}"\n`, { mode: 0o600 });
  writeFileSync(
    ini,
    [
      "[databases]",
      `* = host=${server.hostname} port=${server.port}`,
      "[pgbouncer]",
      ...Object.entries(lines).map(([key, value]) => `${key} = ${value}`),
      "",
    ].join("\n"),
  );
  if (user) for (const file of [folder, users, ini]) chownSync(file, user.uid, user.gid);

  let child;
  let watchdog;
  async function start() {
    let ended;
    child = spawn(pgbouncer, [ini], {
      stdio: "ignore",
      cwd: "/",
      ...(user && { uid: user.uid, gid: user.gid }),
    });
    child.unref();
    child.once("error", (error) => (ended = error.message));
    child.once("exit", (code, by) => (ended = `ended with ${by ?? code}`));
    await waitFor(async () => ended || (await accepts(port)), 10_000);
    if (!ended && (await accepts(port))) {
      watchdog = startWatchdog(child.pid, folder);
      return;
    }
    const log = existsSync(lines.logfile) ? readFileSync(lines.logfile, "utf8").slice(-1_000) : "";
    throw new Error(`pgbouncer did not start: ${ended ?? "no answer after 10 s"}\n${log}`);
  }
  /** Ends it, by this signal; clients lose their connections. */
  async function end(by = "SIGTERM") {
    watchdog?.kill("SIGKILL");
    const { pid } = child;
    const gone = () => child.exitCode !== null || child.signalCode !== null;
    signal(pid, by);
    if (!(await waitFor(gone, 5_000))) signal(pid, "SIGKILL");
    await waitFor(gone, 2_000);
  }

  await start();
  return {
    port,
    get pid() {
      return child.pid;
    },
    /** The same URL, through the pooler; `database` names another one. */
    url(database) {
      const through = new URL(url);
      through.hostname = HOST;
      through.port = String(port);
      if (database) through.pathname = `/${database}`;
      return through.href;
    },
    end,
    start,
    async stop() {
      await end("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, HOST);
    const answer = (yes) => {
      socket.destroy();
      resolve(yes);
    };
    socket.once("connect", () => answer(true));
    socket.once("error", () => answer(false));
  });
}
