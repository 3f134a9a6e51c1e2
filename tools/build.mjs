// npm run build; with --if-changed only when a source has changed since the last build.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "..");
const stamp = path.join(root, "dist", ".sources");
const nest = createRequire(import.meta.url).resolve("@nestjs/cli/bin/nest.js");
const config = JSON.parse(readFileSync(path.join(root, "nest-cli.json"), "utf8"));
const exists = ([, { sourceRoot }]) => existsSync(path.join(root, sourceRoot));
const projects = Object.fromEntries(Object.entries(config.projects).filter(exists));

/** npm packs what lies beside package.json; in git they are once, at the root. */
const TEXTS = ["README.md", "LICENSE"];
const PACKAGES = ["libs/jobs", "libs/jobs-admin"];

function copyTexts() {
  for (const folder of PACKAGES)
    for (const text of TEXTS) copyFileSync(path.join(root, text), path.join(root, folder, text));
}

function output(name) {
  const { type, root: folder, entryFile } = projects[name];
  return type === "library"
    ? path.join(root, folder, "dist", `${entryFile}.js`)
    : path.join(root, "dist", "apps", name, "main.js");
}

/** Everything the build reads, as one hash. */
function sources() {
  const hash = createHash("sha256");
  const add = (file) =>
    hash
      .update(file)
      .update("\0")
      .update(readFileSync(path.join(root, file)));
  for (const file of ["package-lock.json", "tsconfig.json", "nest-cli.json"]) add(file);
  for (const { root: folder } of Object.values(projects)) {
    const entries = readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true });
    for (const entry of entries) {
      const file = path.relative(root, path.join(entry.parentPath ?? entry.path, entry.name));
      const parts = file.split(path.sep);
      if (TEXTS.includes(entry.name)) continue;
      if (entry.isFile() && !parts.includes("dist") && !parts.includes("node_modules")) add(file);
    }
  }
  return hash.digest("hex");
}

function run(project) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [nest, "build", project], {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (text += data));
    child.once("error", reject);
    child.once("close", (code) => {
      // without anything to compile it writes nothing, says nothing and ends with 0
      const wrote = code !== 0 || existsSync(output(project));
      if (code === 0 && wrote) resolve();
      else if (!wrote) reject(new Error(`nest build ${project} wrote no ${output(project)}`));
      else reject(new Error(`nest build ${project} failed\n${text.trim()}`));
    });
  });
}

async function build() {
  rmSync(stamp, { force: true });
  const names = (type) => Object.keys(projects).filter((name) => projects[name].type === type);
  // in the order of nest-cli.json: later libraries and the apps read the types of earlier ones
  for (const library of names("library")) await run(library);
  await Promise.all(names("application").map(run));
}

copyTexts();
const before = sources();
const upToDate =
  Object.keys(projects).every((name) => existsSync(output(name))) &&
  existsSync(stamp) &&
  readFileSync(stamp, "utf8") === before;

if (!upToDate || !process.argv.includes("--if-changed")) {
  try {
    await build();
    mkdirSync(path.dirname(stamp), { recursive: true });
    writeFileSync(stamp, before);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
