import { readFileSync } from "node:fs";
import path from "node:path";

/**
 * What a service is called that does not say: its package and the file that it was started by. All of its replicas are
 * called so, wherever they are installed.
 */
export function serviceName(entry: string | undefined): string {
  if (entry === undefined) return "node";
  for (let folder = path.dirname(entry); ; folder = path.dirname(folder)) {
    const name = packageIn(folder);
    if (name !== undefined)
      return [name, ...path.relative(folder, entry).split(path.sep)].join("/");
    if (folder === path.dirname(folder)) return path.basename(entry);
  }
}

function packageIn(folder: string): string | undefined {
  try {
    const text = readFileSync(path.join(folder, "package.json"), "utf8");
    const { name } = JSON.parse(text) as { name?: unknown };
    return typeof name === "string" && name !== "" ? name : undefined;
  } catch {
    return undefined; // There is none, or none that can be read: the folder above may have one.
  }
}
