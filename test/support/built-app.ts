import { type ChildProcess, type ForkOptions, fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { until } from "./until.js";

const ROOT = path.resolve(import.meta.dirname, "../..");

/** A sample app as `npm start` runs it: a process of its own, from dist, with a channel to the launcher. */
export class BuiltApp {
  output = "";
  readonly messages: { type: string; port?: number; id?: string }[] = [];
  readonly child: ChildProcess;
  readonly #exit: Promise<unknown>;

  /** Of this repository, unless its `cwd` is that of another one that is built. */
  constructor(
    name: "api" | "worker" | "admin",
    env: Record<string, string | undefined>,
    { cwd = ROOT, ...as }: Pick<ForkOptions, "cwd" | "uid" | "gid"> = {},
  ) {
    this.child = fork(path.join(String(cwd), "dist/apps", name, "main.js"), {
      ...as,
      cwd,
      env: { PATH: process.env.PATH, NO_COLOR: "1", ...env },
      execArgv: [],
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    for (const stream of [this.child.stdout!, this.child.stderr!])
      stream.setEncoding("utf8").on("data", (text: string) => (this.output += text));
    this.child.on("message", (message: BuiltApp["messages"][number]) =>
      this.messages.push(message),
    );
    // "close" never comes after a disconnect of ours
    this.#exit = Promise.all([
      once(this.child, "exit"),
      once(this.child.stdout!, "close"),
      once(this.child.stderr!, "close"),
    ]);
  }

  /** Its port, once it listens. */
  async ready(): Promise<number> {
    const { port } = await this.message("ready");
    return port!;
  }

  async message(type: string): Promise<BuiltApp["messages"][number]> {
    return await until(
      () => {
        const found = this.messages.find((one) => one.type === type);
        if (!found && this.child.exitCode !== null) throw new Error(`it ended: ${this.output}`);
        return found;
      },
      { timeout: 30_000, what: `it says ${type}` },
    );
  }

  /** Its exit code, or the signal that ended it. */
  async exit(): Promise<number | string | null> {
    await this.#exit;
    return this.child.exitCode ?? this.child.signalCode;
  }

  async end(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.#exit;
  }
}
