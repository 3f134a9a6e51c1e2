// npm run test:matrix: fresh clones of HEAD, two versions of Node.js, root and an ordinary user.
// Writes docs/verification.md. As an ordinary user it runs its own half; `npm run test:matrix -- 24.21.0` runs the
// rows of that Node.js alone and leaves the others as they stand, each with the commit that it is of.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import { chownTree } from "./postgres/files.mjs";

const root = path.resolve(import.meta.dirname, "..");
const file = path.join(root, "docs", "verification.md");
const NEWER_NODE = "24.21.0";
const NOBODY = { uid: 65_534, gid: 65_534 };
const isRoot = process.getuid() === 0;

const RUNS = [
  { node: "this", user: "root", mode: 0o700 },
  { node: "this", user: "ordinary", mode: 0o755 },
  { node: NEWER_NODE, user: "root", mode: 0o755 },
  { node: NEWER_NODE, user: "ordinary", mode: 0o700 },
].filter(
  ({ node, user }) =>
    (isRoot || user === "ordinary") && (process.argv.length < 3 || process.argv.includes(node)),
);
if (RUNS.length === 0) throw new Error(`expected "this" or "${NEWER_NODE}"`);

const run = (file, args, cwd = root) =>
  execFileSync(file, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

/** @returns the folder of another Node.js, from npm */
function fetchNode(version, base) {
  const name = `node-${process.platform}-${process.arch}`;
  run("npm", ["pack", `${name}@${version}`, "--silent", "--pack-destination", base]);
  run("tar", ["-xzf", path.join(base, `${name}-${version}.tgz`), "-C", base]);
  return path.join(base, "package", "bin");
}

function environment(home, bin) {
  const kept = Object.entries(process.env).filter(
    ([key]) => !/^npm_|^(TEST_)?DATABASE_URL$|^SKIP_/i.test(key),
  );
  return {
    ...Object.fromEntries(kept),
    HOME: home,
    PATH: bin ? `${bin}${path.delimiter}${process.env.PATH}` : process.env.PATH,
    // the new home has no settings of npm
    npm_config_registry: run("npm", ["config", "get", "registry"]),
    npm_config_cache: path.join(home, "npm-cache"),
    CI: "true",
  };
}

/** Runs one command of a clone; its output goes to a log next to the clone. */
async function step(args, { log, ...options }) {
  const started = performance.now();
  const output = createWriteStream(log, { flags: "a" });
  await once(output, "open");
  const child = spawn("npm", args, { ...options, stdio: ["ignore", output, output] });
  const [code] = await once(child, "exit");
  output.close();
  return { code, seconds: Math.round((performance.now() - started) / 1000) };
}

async function verify({ node, user, mode }, base, newerBin, index) {
  const folder = path.join(base, `run-${index}`);
  const clone = path.join(folder, "clone");
  const home = path.join(folder, "home");
  const log = path.join(folder, "log");
  for (const dir of [folder, home]) mkdirSync(dir, { mode: 0o755 });
  run("git", ["clone", "--quiet", "--no-hardlinks", root, clone]);
  chmodSync(clone, mode);
  const owner = isRoot && user === "ordinary" ? NOBODY : undefined;
  if (owner) chownTree(folder, owner);

  const env = environment(home, node === "this" ? undefined : newerBin);
  const options = { ...owner, cwd: clone, env, log };
  const version = (file) =>
    execFileSync(file, ["--version"], { env, encoding: "utf8", stdio: "pipe" }).trim();
  const install = await step(["ci", "--no-audit", "--no-fund"], options);
  const test = install.code === 0 ? await step(["test"], options) : undefined;
  const counts = /^\d+ passed, \d+ failed, \d+ skipped$/m.exec(readFileSync(log, "utf8"))?.[0];
  const ok = test?.code === 0 && counts !== undefined;
  if (!ok) console.log(readFileSync(log, "utf8").slice(-5_000));
  rmSync(clone, { recursive: true, force: true });
  return {
    ok,
    row: [
      run("git", ["rev-parse", "--short", "HEAD"]),
      version("node"),
      version("npm"),
      user === "root" ? "root" : "an ordinary user",
      `0${mode.toString(8)}`,
      `${install.seconds} s`,
      test ? `${test.seconds} s` : "–",
      counts ?? "–",
      ok ? "passed" : "**failed**",
    ],
  };
}

function report(rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const head = [
    "commit",
    "Node.js",
    "npm",
    "user",
    "folder",
    "npm ci",
    "npm test",
    "tests",
    "result",
  ];
  const release = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
  const system = /^PRETTY_NAME="(.*)"$/m.exec(release)?.[1] ?? `${os.type()} ${os.release()}`;
  return `# Verification

Fresh clones, each with \`npm ci\` and \`npm test\`, on
${new Date().toISOString().slice(0, 10)}; ${system}, ${os.arch()}, ${os.availableParallelism()} cores.
Written by \`npm run test:matrix\`.

${[line(head), line(head.map(() => "---")), ...withOthers(rows, line)].join("\n")}
`;
}

/** The rows of this run, and those of earlier ones for another Node.js or user. */
function withOthers(rows, line) {
  const nameOf = (text) =>
    text
      .split(" | ")
      .slice(1, 5)
      .join(" ")
      .replace(/ [\d.]+ /, " ");
  const old = existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .filter((text) => /^\| [0-9a-f]{7,} /.test(text))
    : [];
  const now = rows.map(line);
  const names = new Set(now.map(nameOf));
  return [...old.filter((text) => !names.has(nameOf(text))), ...now].sort((a, b) =>
    nameOf(a).localeCompare(nameOf(b)),
  );
}

const base = mkdtempSync(path.join(os.tmpdir(), "jobs-matrix-"));
chmodSync(base, 0o755); // the ordinary user has to get in
try {
  const newerBin = fetchNode(NEWER_NODE, base);
  const results = [];
  for (const [index, one] of RUNS.entries()) {
    console.log(`Node.js ${one.node}, ${one.user}, folder of mode 0${one.mode.toString(8)}`);
    const result = await verify(one, base, newerBin, index);
    console.log(result.row.join(", "));
    results.push(result);
  }
  mkdirSync(path.join(root, "docs"), { recursive: true });
  writeFileSync(file, report(results.map(({ row }) => row)));
  process.exitCode = results.every(({ ok }) => ok) ? 0 : 1;
} finally {
  rmSync(base, { recursive: true, force: true, maxRetries: 5 });
}
