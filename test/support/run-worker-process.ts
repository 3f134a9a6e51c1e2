import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { until } from "./until.js";

const script = path.resolve(import.meta.dirname, "../fixtures/run-worker.mjs");

/** A worker in a process of its own, of the built package. */
export class WorkerProcess {
  output = "";
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;

  constructor(fixture: object) {
    this.#child = spawn(process.execPath, [script], {
      env: { ...process.env, NO_COLOR: "1", FIXTURE: JSON.stringify(fixture) },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.#child.stdout!, this.#child.stderr!])
      stream.setEncoding("utf8").on("data", (text) => (this.output += text));
    this.#closed = once(this.#child, "close");
  }

  get over(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Its exit code, once it has ended and all that it has said is read. */
  async exit(): Promise<number | null> {
    await this.#closed;
    return this.#child.exitCode;
  }

  /** Where its probes are. */
  async port(): Promise<number> {
    return Number(await this.#line(/^port (\d+)$/m));
  }

  /** Waits until the body of a job of this kind has begun: its claim is in the table before. */
  async begins(kind: string): Promise<void> {
    await this.#line(new RegExp(`^(begun ${kind})$`, "m"));
  }

  /** The status of a probe. */
  async probe(name: "livez" | "readyz"): Promise<number> {
    const response = await fetch(`http://127.0.0.1:${await this.port()}/${name}`);
    await response.text();
    return response.status;
  }

  /** Waits until it is ready, or is not. */
  async answers(name: "livez" | "readyz", status: number, timeout = 30_000): Promise<void> {
    await until(async () => (await this.probe(name)) === status, {
      what: `/${name} answers ${status}`,
      timeout,
    });
  }

  async #line(pattern: RegExp): Promise<string> {
    const find = () => pattern.exec(this.output)?.[1];
    await until(() => find() ?? this.over, {
      what: `it prints ${String(pattern)}`,
      timeout: 30_000,
    });
    const found = find();
    if (found === undefined) throw new Error(`it ended: ${this.output}`);
    return found;
  }
}
