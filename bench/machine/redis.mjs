// A Redis server of our own on the loopback interface, when its binary is installed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { startWatchdog } from "../../tools/postgres.mjs";
import { freePort, waitFor } from "../../tools/processes.mjs";

const HOST = "127.0.0.1";

export function findRedis() {
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  return folders.map((folder) => path.join(folder, "redis-server")).find(existsSync);
}

export class RedisServer {
  host = HOST;
  #child;
  #folder;
  #watchdog;

  static async start(binary) {
    const server = new RedisServer();
    server.port = await freePort(HOST);
    server.#folder = mkdtempSync(path.join(tmpdir(), "jobs-redis-"));
    const settings = {
      bind: HOST,
      port: server.port,
      dir: server.#folder,
      appendonly: "yes",
      appendfsync: "everysec",
      save: "",
    };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
    // Detached: a Ctrl-C reaches the benchmark alone, which stops it last; and the watchdog if that is killed.
    server.#child = spawn(binary, args, { stdio: "ignore", detached: true });
    server.#watchdog = startWatchdog(server.#child.pid, server.#folder);
    const up = await waitFor(() => answers(server.port), 10_000);
    if (!up) {
      await server.stop();
      throw new Error(`${binary} did not answer on port ${server.port} within 10 s`);
    }
    return server;
  }

  get pid() {
    return this.#child.pid;
  }

  async stop() {
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    if (this.#child.exitCode === null && this.#child.signalCode === null) await exited;
    this.#watchdog.kill("SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function answers(port) {
  const socket = connect(port, HOST);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
