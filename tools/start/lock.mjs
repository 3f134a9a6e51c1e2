import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { commandLine, signal, waitFor } from "../processes.mjs";

const LONGEST_STOP = 60_000;

/**
 * One launcher per data folder. The file also names the apps, so that a start after a SIGKILL can
 * wait for those that are still on their way out.
 */
export class Lock {
  #apps = {};
  #taken = false;

  constructor(folder) {
    this.file = path.join(folder, "start.json");
  }

  async take(log) {
    const { launcher, stopping, apps = {} } = this.#read();
    const gone = () => launcher === process.pid || !runs(launcher, "start.mjs");
    if (stopping && !gone()) log(`waits for the npm start that is stopping (pid ${launcher})`);
    if (!gone() && !(stopping && (await waitFor(gone, LONGEST_STOP)))) {
      throw new Error(`npm start already runs here (pid ${launcher}); stop it first`);
    }
    mkdirSync(path.dirname(this.file), { recursive: true });
    this.#taken = true;
    this.#write();
    await Promise.all(Object.entries(apps).map(([name, pid]) => seeOff(name, pid, log)));
  }

  note(name, pid) {
    this.#apps[name] = pid;
    this.#write();
  }

  noteStopping() {
    if (this.#taken) this.#write({ stopping: true });
  }

  release() {
    if (!this.#taken) return; // somebody else's
    rmSync(this.file, { force: true });
  }

  #read() {
    try {
      return JSON.parse(readFileSync(this.file, "utf8"));
    } catch {
      return {}; // none, or cut off
    }
  }

  #write(more = {}) {
    const draft = `${this.file}.draft`;
    writeFileSync(draft, JSON.stringify({ launcher: process.pid, apps: this.#apps, ...more }));
    renameSync(draft, this.file);
  }
}

const runs = (pid, script) =>
  pid > 0 && commandLine(pid).some((arg) => path.basename(arg) === script);

/** Without their launcher the apps end by themselves; one that hangs is ended. */
async function seeOff(name, pid, log) {
  const gone = () => !runs(pid, "main.js");
  if (gone()) return;
  log(`${name} of an earlier start is still ending (pid ${pid})`);
  if (await waitFor(gone, 5_000)) return;
  signal(-pid, "SIGKILL");
  await waitFor(gone, 1_000);
}
