import { readFileSync } from "node:fs";

/** The release of this package; null where its manifest is not beside it, as in a bundle. */
export const RELEASE: string | null = (() => {
  try {
    const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8");
    return (JSON.parse(manifest) as { version: string }).version;
  } catch {
    return null;
  }
})();
