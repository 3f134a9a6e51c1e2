import { fork } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { signal } from "../processes.mjs";

const BOOT_LIMIT = 60_000;
const STOP_LIMIT = 40_000; // longer than any drain

/** One of our processes, in a process group of its own, so that Ctrl-C does not reach it. */
export class App {
  /** Set when the process is gone: "exit code 1" or "SIGKILL". */
  ended;

  constructor(name, main, { env, onMessage, args = [] }) {
    this.name = name;
    this.child = fork(main, args, {
      detached: true,
      env,
      execArgv: [],
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => console.log(`[${name}] ${line}`));
    }
    this.gone = this.#watch();
    this.ready = this.#boot();
    this.ready.catch(() => {}); // whoever awaits it gets the error
    if (onMessage) this.child.on("message", onMessage);
  }

  get pid() {
    return this.child.pid;
  }

  async #watch() {
    const closed = once(this.child, "close").catch(() => {});
    try {
      const [code, name] = await once(this.child, "exit");
      this.ended = name ?? `exit code ${code}`;
    } catch (error) {
      this.ended = error.message;
    }
    // its last words may still be in the pipe
    await Promise.race([closed, sleep(500)]);
    return this.ended;
  }

  #boot() {
    return new Promise((resolve, reject) => {
      const limit = setTimeout(
        () => reject(new Error(`${this.name} was not ready after ${BOOT_LIMIT / 1000} s`)),
        BOOT_LIMIT,
      );
      this.child.on("message", (message) => {
        if (message?.type !== "ready") return;
        clearTimeout(limit);
        resolve(message);
      });
      void this.gone.then((how) => {
        clearTimeout(limit);
        reject(new Error(`${this.name} ended at start (${how})`));
      });
    });
  }

  /** Asks it to finish and waits until it has. */
  async stop() {
    if (this.ended) return;
    this.child.kill("SIGTERM");
    const limit = setTimeout(() => {
      console.log(`${this.name} does not stop: killed`);
      this.kill();
    }, STOP_LIMIT);
    const how = await this.gone;
    clearTimeout(limit);
    if (how !== "exit code 0") console.log(`${this.name} ended with ${how}`);
  }

  /** Ends it and whatever it has started. */
  kill() {
    if (!this.ended && this.pid) signal(-this.pid, "SIGKILL");
  }
}
