// npm start: PostgreSQL (unless DATABASE_URL is set), migrations, the three sample apps, sample jobs.
// They stop in this order: the worker, which finishes its jobs first; the other apps; PostgreSQL.
import { randomBytes } from "node:crypto";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { App } from "./start/app.mjs";
import { openDatabase } from "./start/database.mjs";
import { Lock } from "./start/lock.mjs";
import { choosePorts } from "./start/ports.mjs";
import { postSamples } from "./start/samples.mjs";

const root = path.resolve(import.meta.dirname, "..");
const { env } = process;
// the specs put small fakes in these places
const appsDir = path.resolve(env.START_APPS_DIR ?? path.join(root, "dist", "apps"));
const cli = path.resolve(env.START_CLI ?? path.join(root, "libs", "jobs", "bin", "pg-jobs.mjs"));
const dataDir = path.resolve(env.START_DATA_DIR ?? path.join(root, ".data"));

const WANTED = {
  api: { variable: "API_PORT", fallback: 3000 },
  worker: { variable: "WORKER_PORT", fallback: 8081 },
  admin: { variable: "ADMIN_PORT", fallback: 3001 },
};
const host = env.HOST || "127.0.0.1";
const log = (line) => console.log(line);

const lock = new Lock(dataDir);
const apps = {};
let database;
let migration;
let endSamples = () => {};
let stopping = false;
let interrupted = 0;

async function boot() {
  if (!env.DATABASE_URL) await lock.take(log);
  const ports = await choosePorts(WANTED, host);
  const giveUpUnlessStopping = (error) => void (stopping || giveUp(error));
  database = await openDatabase(
    env.DATABASE_URL,
    path.join(dataDir, "pg"),
    log,
    giveUpUnlessStopping,
  );
  log(`postgres ${database.shown}`);
  if (stopping) return;

  const token = env.ADMIN_TOKEN || randomBytes(24).toString("base64url");
  const childEnv = {
    ...env,
    DATABASE_URL: database.url,
    JOBS_SCHEMA: env.JOBS_SCHEMA || "jobs",
    HOST: host,
    ADMIN_TOKEN: token,
    // the apps write to us, but their lines end where ours do
    ...(process.stdout.isTTY ? {} : { NO_COLOR: "1" }),
  };
  for (const [name, port] of Object.entries(ports)) childEnv[WANTED[name].variable] = String(port);
  // an empty one means that no feed is wanted; a port that the api has yet to find cannot be named
  if (ports.api) childEnv.FEED_SOURCES = env.FEED_SOURCES ?? `${address(ports.api)}/feeds/news`;

  await migrate(childEnv);
  if (stopping) return;
  for (const name of Object.keys(WANTED)) startApp(name, childEnv);
  const [api, worker, admin] = await Promise.all(
    Object.keys(WANTED).map(async (name) => {
      const { port = ports[name] } = await apps[name].ready;
      return address(port);
    }),
  );
  if (stopping) return;
  log(`api ${api}`);
  log(`worker ${worker}/readyz`);
  log(`admin ${admin}/admin token ${env.ADMIN_TOKEN ? "from ADMIN_TOKEN" : token}`);
  for (const app of Object.values(apps)) void keepUp(app, childEnv);
  endSamples = postSamples(api, log);
}

function address(port) {
  const shown = { "0.0.0.0": "127.0.0.1", "::": "[::1]" }[host] ?? host;
  return `http://${shown.includes(":") && !shown.startsWith("[") ? `[${shown}]` : shown}:${port}`;
}

async function migrate(childEnv) {
  migration = new App("migrate", cli, { args: ["migrate"], env: childEnv });
  const how = await migration.gone;
  if (how !== "exit code 0" && !stopping) throw new Error(`the migration failed (${how})`);
}

function startApp(name, childEnv) {
  const main = path.join(appsDir, name, "main.js");
  apps[name] = new App(name, main, { env: childEnv, onMessage });
  if (!env.DATABASE_URL) lock.note(name, apps[name].pid);
  return apps[name];
}

let firstJobDone = false;
function onMessage(message) {
  if (message?.type !== "succeeded" || firstJobDone) return;
  firstJobDone = true;
  log(`first job succeeded after ${process.uptime().toFixed(1)} s`);
}

/** An app that crashes is started again, as an orchestrator would; if that fails, all ends. */
async function keepUp(app, childEnv) {
  const how = await app.gone;
  if (stopping) return;
  log(`${app.name} ended with ${how}; starts again`);
  await sleep(1_000);
  if (stopping) return;
  const next = startApp(app.name, childEnv);
  try {
    await next.ready;
    void keepUp(next, childEnv);
  } catch (error) {
    if (!stopping) await giveUp(error);
  }
}

async function stopAll(bootEnded) {
  stopping = true;
  lock.noteStopping();
  endSamples();
  await migration?.stop();
  await apps.worker?.stop();
  await Promise.all([apps.api?.stop(), apps.admin?.stop()]);
  await bootEnded; // it may be in the middle of starting PostgreSQL
  await database?.stop();
  lock.release();
}

async function giveUp(error) {
  console.error(error.message);
  await stopAll();
  process.exit(1);
}

async function interrupt() {
  const now = performance.now();
  if (!stopping) {
    interrupted = now;
    log("stopping; the worker finishes its jobs first (Ctrl-C again: at once)");
    await stopAll(booted);
    process.exit(0);
  }
  // npm passes on the Ctrl-C that the terminal has already sent us: that is not a second one
  if (now - interrupted > 700) force();
}

function force() {
  for (const app of [migration, ...Object.values(apps)]) app?.kill();
}

/** A SIGKILL of npm does not reach us, but whoever sent it meant us. */
function watchNpm() {
  const npm = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === npm) return;
    clearInterval(timer);
    void interrupt();
    setTimeout(force, 3_000);
  }, 200);
}

// the terminal may be gone before we are
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, () => void interrupt());

if (env.npm_lifecycle_event === "start") watchNpm();

const booted = boot().catch(async (error) => {
  if (!stopping) await giveUp(error);
});
await booted;
