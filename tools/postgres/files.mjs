import { chmodSync, lchownSync, lstatSync, readdirSync } from "node:fs";
import path from "node:path";

/** Calls `visit(path, stats)` for a folder and everything in it; does not follow links. */
function walk(at, visit) {
  const stats = lstatSync(at);
  visit(at, stats);
  if (stats.isDirectory()) for (const name of readdirSync(at)) walk(path.join(at, name), visit);
}

export function chownTree(dir, { uid, gid }) {
  walk(dir, (at) => lchownSync(at, uid, gid));
}

/** Lets every user read a tree, and execute what its owner may execute. */
export function openTree(dir) {
  walk(dir, (at, stats) => {
    if (stats.isSymbolicLink()) return;
    chmodSync(at, stats.mode & 0o100 ? 0o755 : 0o644);
  });
}
