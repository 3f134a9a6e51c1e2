import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "../..");

// The build has put them there; npm says itself what it would pack.
it.each(["libs/jobs", "libs/jobs-admin"])("the package of %s carries README and licence", (lib) => {
  const folder = path.join(root, lib);
  const said = execFileSync("npm", ["pack", "--dry-run", "--json", "--offline"], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [packed] = JSON.parse(said) as [{ files: { path: string }[] }];
  const paths = packed.files.map((file) => file.path);
  expect(paths).toEqual(expect.arrayContaining(["LICENSE", "README.md", "dist/index.js"]));
  for (const text of ["LICENSE", "README.md"])
    expect(readFileSync(path.join(folder, text), "utf8")).toBe(
      readFileSync(path.join(root, text), "utf8"),
    );
});
