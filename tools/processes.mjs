import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** The arguments of a process; empty when it is gone or only a zombie. */
export function commandLine(pid) {
  try {
    if (existsSync("/proc/self/cmdline")) {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").filter(Boolean);
    }
    const text = execFileSync("ps", ["-ww", "-o", "command=", "-p", String(pid)], {
      encoding: "utf8",
    });
    return text.trim().split(" ");
  } catch {
    return [];
  }
}

export function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

export async function waitFor(check, timeout, every = 20) {
  const end = Date.now() + timeout;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) return undefined;
    await sleep(every);
  }
}

export function freePort(host = "127.0.0.1") {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, host, () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** What a running server says about itself in postmaster.pid. */
export function readPidFile(dataDir) {
  try {
    const lines = readFileSync(path.join(dataDir, "postmaster.pid"), "utf8").split("\n");
    const [pid, , , port, , , , status = ""] = lines;
    return { pid: Number(pid), port: Number(port), ready: status.trim() === "ready" };
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** Is this process a PostgreSQL server on this data folder, and not one that got its pid later? */
export function serves(pid, dataDir) {
  const args = commandLine(pid);
  return args.some((arg) => path.basename(arg) === "postgres") && args.includes(dataDir);
}

// Signals, and how long to wait after each.
const STEPS = {
  fast: [
    ["SIGINT", 15_000],
    ["SIGQUIT", 5_000],
    ["SIGKILL", 5_000],
  ],
  immediate: [
    ["SIGQUIT", 2_000],
    ["SIGKILL", 5_000],
  ],
};

/** Stops a server, ever harder. */
export async function endServer(pid, dataDir, mode = "fast") {
  // a zombie that nobody waits for counts as gone
  const gone = () => !serves(pid, dataDir) || readPidFile(dataDir)?.pid !== pid;
  for (const [name, patience] of STEPS[mode]) {
    signal(pid, name);
    if (await waitFor(gone, patience)) break;
  }
  // the pid file goes shortly before the process: let it leave, so that the folder can be removed
  await waitFor(() => !serves(pid, dataDir), 2_000);
}
