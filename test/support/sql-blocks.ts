import { readFileSync } from "node:fs";
import path from "node:path";

const ROOT = path.resolve(import.meta.dirname, "../..");

/** The ```sql blocks of a page, by the heading that they stand under. */
export function sqlBlocks(page: string): Map<string, string[]> {
  const text = readFileSync(path.join(ROOT, page), "utf8");
  const found = new Map<string, string[]>();
  for (const section of text.split(/^#+ /m).slice(1)) {
    const title = section.slice(0, section.indexOf("\n"));
    const blocks = [...section.matchAll(/^( *)```sql\n(.*?)^\1```$/gms)].map(([, , sql]) => sql!);
    if (blocks.length > 0) found.set(title, blocks);
  }
  return found;
}
