import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";

// What a page calls a spec exists, or nobody could look at what proves it.

const root = path.resolve(import.meta.dirname, "../..");
const pages = readdirSync(path.join(root, "docs"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".md"))
  .map((file) => path.join("docs", file));

const specsIn = (page: string) =>
  [...readFileSync(path.join(root, page), "utf8").matchAll(/`([\w./-]+[.-]spec\.ts)`/g)].map(
    ([, name]) => name!,
  );

it.each([...pages, "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])(
  "%s names only specs that exist",
  (page) => {
    const missing = specsIn(page).filter(
      (name) => !["", "test"].some((folder) => existsSync(path.join(root, folder, name))),
    );
    expect(missing).toEqual([]);
  },
);

it("finds them", () => {
  expect(specsIn("docs/foundation.md").length).toBeGreaterThan(50);
});
