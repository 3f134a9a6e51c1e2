// Renews the leases of what the main thread holds. A thread of its own with a connection of its own: neither a
// blocked event loop nor a busy pool may cost a lease. It renews a running job until its time is up, and a
// waiting one as long as the main thread turns: an endless loop must not be renewed for ever.
import { hrtime } from "node:process";
import { parentPort, workerData } from "node:worker_threads";
import pg from "pg";

const { memory, layout, capacity, leaseMs, config, asksPassword, renewSql, stillHeldSql } =
  workerData;
const numbers = new Float64Array(memory);
const integers = new BigInt64Array(memory);

const EVERY_MS = Math.max(50, leaseMs / 6);
const RENEW_AFTER_MS = leaseMs / 3;
const MAIN_IS_STUCK_MS = 10_000;
const BATCH = 500;
const REPLY_MS = Math.max(1_000, Math.min(5_000, leaseMs / 2));

let client;
let backoff = 100;
let stopping = false;

const monotonic = () => {
  const [seconds, nanoseconds] = hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
};

/** A slot as it is now; undefined when it is empty or being written. */
function read(slot) {
  const at = layout.header + slot * layout.stride;
  const version = Atomics.load(integers, at + layout.version);
  if (version & 1n) return undefined;
  const held = {
    slot,
    at,
    version,
    id: integers[at + layout.id],
    queue: numbers[at + layout.queue],
    attempt: numbers[at + layout.attempt],
    worker: numbers[at + layout.worker],
    until: numbers[at + layout.until],
    renewedAt: numbers[at + layout.renewedAt],
  };
  if (held.id === 0n || Atomics.load(integers, at + layout.version) !== version) return undefined;
  return held;
}

/** Whether the slot still has what was read there. */
const isSame = (one) => Atomics.load(integers, one.at + layout.version) === one.version;

function due() {
  const now = monotonic();
  const mainTurns = now - numbers[0] < MAIN_IS_STUCK_MS;
  const groups = new Map();
  for (let slot = 0; slot < capacity; slot++) {
    const held = read(slot);
    if (!held || now - held.renewedAt < RENEW_AFTER_MS) continue;
    if (held.until === 0 ? !mainTurns : now > held.until) continue;
    const name = `${held.queue} ${held.worker}`;
    const group = groups.get(name) ?? [];
    groups.set(name, group);
    group.push(held);
  }
  return [...groups.values()];
}

async function renew(group) {
  for (let from = 0; from < group.length; from += BATCH) {
    const batch = group.slice(from, from + BATCH);
    const { queue, worker } = batch[0];
    const sentAt = monotonic();
    const fence = (of) => [
      queue,
      `{${of.map((one) => one.id).join(",")}}`,
      `{${of.map((one) => `"${one.id}":[${one.attempt}]`).join(",")}}`,
      worker,
    ];
    const renewed = await ids(renewSql, [...fence(batch), leaseMs]);
    numbers[layout.renewals] += renewed.size;
    for (const one of batch)
      if (renewed.has(String(one.id)) && isSame(one)) numbers[one.at + layout.renewedAt] = sentAt;
    const rest = batch.filter((one) => !renewed.has(String(one.id)));
    if (rest.length === 0) continue;
    const locked = await ids(stillHeldSql, fence(rest));
    // What was settled meanwhile has left its slot; what is still there and not ours is lost.
    const lost = rest.filter((one) => !locked.has(String(one.id)) && isSame(one));
    if (lost.length > 0) {
      parentPort.postMessage({
        lost: lost.map(({ slot, id, attempt, worker: by }) => ({
          slot,
          id: String(id),
          attempt,
          worker: by,
        })),
      });
    }
  }
}

// Whatever the database has for its default, and behind a pooler too, which takes no settings at connect: the level
// comes with the statement, in one go. That way has no parameters; ours are numbers, and lists of them.
const LEVEL = "set transaction isolation level read committed";

async function ids(text, values) {
  const written = text.replace(/\$(\d)/g, (_, n) => `'${values[n - 1]}'`);
  const [, result] = await client.query({ text: `${LEVEL}; ${written}`, rowMode: "array" });
  return new Set(result.rows.map(([id]) => String(id)));
}

async function connect() {
  const password = asksPassword ? await askPassword() : config.password;
  const fresh = new pg.Client({
    ...config,
    password,
    application_name: "pg-jobs renew",
    connectionTimeoutMillis: REPLY_MS,
    query_timeout: REPLY_MS,
    keepAlive: true,
  });
  const gone = () => {
    if (client === fresh) client = undefined;
  };
  fresh.on("error", gone);
  fresh.on("end", gone);
  await fresh.connect();
  client = fresh;
  backoff = 100;
}

function askPassword() {
  return new Promise((resolve, reject) => {
    const hear = (message) => {
      if (!("password" in message) && !("noPassword" in message)) return;
      parentPort.off("message", hear);
      if ("password" in message) resolve(message.password);
      else reject(new Error(`no password: ${message.noPassword}`));
    };
    parentPort.on("message", hear);
    parentPort.postMessage({ needPassword: true });
  });
}

function drop() {
  const dead = client;
  client = undefined;
  dead?.connection?.stream?.destroy();
}

async function turn() {
  let wait = EVERY_MS;
  const groups = due();
  if (groups.length > 0) {
    try {
      // Connected on first need; after a loss the renewals are the first statements.
      if (!client) await connect();
      for (const group of groups) await renew(group);
    } catch (error) {
      drop();
      // Errors lose their fields on the way.
      const { message = String(error), code, severity } = error ?? {};
      parentPort.postMessage({ trouble: { message, code, severity } });
      wait = backoff;
      backoff = Math.min(backoff * 2, 2_000);
    }
  }
  if (!stopping) setTimeout(() => void turn(), wait);
}

async function stop() {
  stopping = true;
  await Promise.race([
    client?.end().catch(() => {}),
    new Promise((resolve) => setTimeout(resolve, 500)),
  ]);
  process.exit(0);
}

parentPort.on("message", (message) => {
  if (message.stop) void stop();
});

void turn();
