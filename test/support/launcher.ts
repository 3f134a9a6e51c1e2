import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "./until.js";

const root = path.resolve(import.meta.dirname, "../..");
const script = path.join(root, "tools/start.mjs");
const fakes = path.join(root, "test/e2e/fakes");

/** A folder for launchers, with fake apps and their data. */
export class LauncherFolder {
  readonly path = mkdtempSync(path.join(tmpdir(), "jobs-start-")); // mode 0700
  private readonly launchers: Launcher[] = [];

  constructor() {
    for (const name of ["api", "worker", "admin"]) {
      const folder = path.join(this.path, "apps", name);
      mkdirSync(folder, { recursive: true });
      copyFileSync(path.join(fakes, "app.mjs"), path.join(folder, "main.js"));
    }
    writeFileSync(path.join(this.path, "apps/package.json"), '{ "type": "module" }');
  }

  start(env: Record<string, string> = {}): Launcher {
    return this.run([process.execPath, script], env);
  }

  /** As npm does: in a process of its own, which can be killed. */
  startUnderParent(env: Record<string, string> = {}): Launcher {
    const command = ["/bin/sh", "-c", '"$0" "$1" & wait', process.execPath, script];
    return this.run(command, { npm_lifecycle_event: "start", ...env });
  }

  private run(command: string[], env: Record<string, string>): Launcher {
    const launcher = new Launcher(command, {
      ...process.env,
      DATABASE_URL: "",
      API_PORT: "0",
      WORKER_PORT: "0",
      ADMIN_PORT: "0",
      START_APPS_DIR: path.join(this.path, "apps"),
      START_CLI: path.join(fakes, "cli.mjs"),
      START_DATA_DIR: path.join(this.path, "data"),
      ...env,
    });
    this.launchers.push(launcher);
    return launcher;
  }

  async remove(): Promise<void> {
    for (const launcher of this.launchers) await launcher.end();
    const pidFile = path.join(this.path, "data/pg/postmaster.pid");
    if (existsSync(pidFile)) {
      // left behind by a launcher that a spec has killed
      process.kill(parseInt(readFileSync(pidFile, "utf8")), "SIGQUIT");
      await until(() => !existsSync(pidFile), { what: "the left server has ended" });
    }
    rmSync(this.path, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A running `npm start`. */
export class Launcher {
  output = "";
  private readonly child: ChildProcess;

  constructor([file, ...args]: string[], env: NodeJS.ProcessEnv) {
    this.child = spawn(file!, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding("utf8").on("data", (text) => (this.output += text));
    }
  }

  get lines(): string[] {
    return this.output.split("\n");
  }

  /** Waits for a line and returns its first group, or all of it. */
  async line(pattern: RegExp): Promise<string> {
    const find = () => {
      const match = this.lines.map((line) => pattern.exec(line)).find(Boolean);
      if (!match && this.over) throw new Error(`it ended: ${this.output}`);
      return match && (match[1] ?? match[0]);
    };
    return until(find, { timeout: 30_000, what: `the launcher prints ${String(pattern)}` });
  }

  /** The process ids of the apps. */
  async pids(): Promise<number[]> {
    const names = ["api", "worker", "admin"];
    const pids = names.map((name) => this.line(new RegExp(`^\\[${name}\\] pid (\\d+)`)));
    return (await Promise.all(pids)).map(Number);
  }

  get over(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Its exit code, once it has ended and all that it has said is read. */
  async exit(): Promise<number | null> {
    if (!this.over) await once(this.child, "exit");
    const { stdout, stderr } = this.child;
    // A server that it has left behind may hold its output open.
    const read = { timeout: 5_000, what: "its output is read" };
    await until(() => stdout!.closed && stderr!.closed, read).catch(() => undefined);
    return this.child.exitCode;
  }

  /** However far it is, and whatever it was in the middle of. */
  async end(): Promise<void> {
    if (this.over) return;
    this.kill("SIGTERM");
    const force = setTimeout(() => this.kill("SIGTERM"), 3_000);
    await this.exit();
    clearTimeout(force);
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
