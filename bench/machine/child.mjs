// A peer's child process, as the coordinator sees it: every method of the actor is a call.
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";

const MAIN = path.resolve(import.meta.dirname, "../actor/main.mjs");
const PATIENCE_MS = 5_000;

export class Child {
  count = 0;
  #process;
  #calls = new Map();
  #next = 0;
  #onCount = () => {};
  #ended;

  /** `flags` are those of Node.js. */
  static async start(peer, places, flags = []) {
    const child = new Child();
    const started = fork(MAIN, {
      execArgv: flags,
      serialization: "advanced",
      stdio: ["ignore", 2, 2, "ipc"],
    });
    child.#process = started;
    child.#ended = once(started, "exit").then(([code, signal]) => {
      child.#fail(new Error(`the process of ${peer} has ended with ${signal ?? code}`));
    });
    const ready = once(started, "message");
    await Promise.race([ready, child.#ended]);
    started.on("message", (message) => child.#hear(message));
    await child.call("open", peer, places);
    return child;
  }

  call(method, ...args) {
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      this.#calls.set(id, { resolve, reject });
      this.#process.send({ id, call: method, args }, (error) => error && reject(error));
    });
  }

  /** Called whenever a worker has told how many runs have begun. */
  onCount(listener) {
    this.#onCount = listener;
  }

  /** Closes what it has open, if it does so in time. */
  async stop() {
    let timer;
    const patience = new Promise((resolve) => (timer = setTimeout(resolve, PATIENCE_MS)));
    await Promise.race([this.call("close").catch(() => {}), patience]);
    clearTimeout(timer);
    this.#process.kill("SIGKILL");
    await this.#ended;
  }

  #hear({ id, answer, error, count }) {
    if (count !== undefined) {
      this.count = count;
      this.#onCount();
      return;
    }
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (error) call.reject(new Error(error));
    else call.resolve(answer);
  }

  #fail(error) {
    for (const { reject } of this.#calls.values()) reject(error);
    this.#calls.clear();
  }
}
