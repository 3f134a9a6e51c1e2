import { spawnSync } from "node:child_process";
import path from "node:path";

const ROOT = path.resolve(import.meta.dirname, "..");

/** What is measured: the commit that is checked out, and whether files differ from it; undefined where nobody knows. */
export function commit() {
  const head = git("rev-parse", "--short", "HEAD");
  const changes = git("status", "--porcelain");
  if (head === undefined || changes === undefined) return undefined;
  return changes === "" ? head : `${head} with changes`;
}

function git(...args) {
  const { status, stdout } = spawnSync("git", args, { cwd: ROOT, encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}
