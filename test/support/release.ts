import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "../..");

/** An earlier release as it was published, unpacked below `dist`, where it finds the packages that it needs. */
export class Release {
  readonly #folder: string;

  constructor(version: string) {
    this.#folder = path.join(root, "dist/releases", version);
    if (existsSync(this.#folder)) return;
    mkdirSync(path.dirname(this.#folder), { recursive: true });
    const draft = mkdtempSync(path.join(path.dirname(this.#folder), "draft-"));
    const file = path.join(root, `test/fixtures/releases/nestjs-pg-jobs-${version}.tgz`);
    execFileSync("tar", ["-xzf", file, "-C", draft]);
    renameSync(path.join(draft, "package"), this.#folder);
    rmSync(draft, { recursive: true });
  }

  /** What its package exports. */
  get dist(): string {
    return path.join(this.#folder, "dist");
  }

  /** Its own command line. */
  cli(args: readonly string[]): string {
    return execFileSync(process.execPath, [path.join(this.#folder, "bin/pg-jobs.mjs"), ...args], {
      encoding: "utf8",
    });
  }
}
