import { appendFileSync, mkdirSync } from "node:fs";
import path from "node:path";

const FOLDER = path.resolve(import.meta.dirname, "results");

/** A file of JSON lines: first the machine, then one line a run, written as soon as it is over. */
export class Results {
  runs = [];
  file;

  constructor(about) {
    mkdirSync(FOLDER, { recursive: true });
    const name = new Date().toISOString().replaceAll(/[:.]/g, "-");
    this.file = path.join(FOLDER, `${name}.jsonl`);
    this.#write({ about });
  }

  add(run) {
    this.runs.push(run);
    this.#write(run);
  }

  get problems() {
    return this.runs.filter(({ problem }) => problem !== undefined);
  }

  #write(line) {
    appendFileSync(this.file, `${JSON.stringify(line)}\n`);
  }
}
