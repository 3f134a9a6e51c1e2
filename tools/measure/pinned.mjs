// A snapshot that is held for minutes, under a steady load, while workers die and come: what it does to the time until a
// job begins, and to what a job costs the server.
import "reflect-metadata";
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { NestFactory } from "@nestjs/core";
import { JobQueue, JobsModule, defineJob } from "nestjs-pg-jobs";
import pg from "pg";
import { serverCpuMs } from "../../bench/machine/cpu.mjs";
import { moduleOf } from "./module.mjs";

export const QUEUE = "pinned";
export const KIND = "pinned";
const Pinned = defineJob(KIND, { queue: QUEUE });
const WORKER = path.join(import.meta.dirname, "pinned.worker.mjs");
const LEASE = "10s";
const PER_SECOND = 2_000;
const EVERY_MS = 10;

/** Parts of the time, in seconds; what happens at the beginning of each. */
const PARTS = [
  { what: "before", seconds: 30 },
  { what: "held, first minute", seconds: 60, does: "pin" },
  { what: "held, second minute; a worker is killed", seconds: 60, does: "kill" },
  { what: "held, third minute; another one has started", seconds: 60, does: "start" },
  { what: "held, fourth minute", seconds: 60 },
  { what: "after", seconds: 30, does: "release" },
];

export async function measurePinned(ground) {
  await ground.clear();
  const producer = await NestFactory.createApplicationContext(
    moduleOf({ imports: [JobsModule.forRoot({ connection: { url: ground.url } })] }),
    { logger: ["error"] },
  );
  const jobs = producer.get(JobQueue);
  const crew = new Crew(ground.url);
  const pin = new pg.Client(ground.url);
  await pin.connect();
  const does = {
    pin: () =>
      pin.query("begin isolation level repeatable read; select count(*) from jobs.job limit 1"),
    kill: () => crew.kill(),
    start: () => crew.start(),
    release: () => pin.query("rollback"),
  };
  try {
    await crew.start();
    await crew.start();
    const parts = [];
    for (const part of PARTS) {
      await does[part.does]?.();
      parts.push(await load(ground, jobs, part));
    }
    await settledOnce(ground, number);
    return section(parts, crew.begun);
  } finally {
    await crew.end();
    await producer.close();
    await pin.end();
  }
}

/** All of them are over, each once. */
async function settledOnce(ground, sent) {
  const count = async (table) =>
    (await ground.admin.query(`select count(*)::int as n from jobs.${table}`)).rows[0].n;
  while ((await count("job")) > 0) await sleep(200);
  // What a worker tells is a little behind.
  await sleep(500);
  const done = await count("done");
  if (done !== sent) throw new Error(`expected ${sent} jobs to have succeeded, found ${done}`);
}

function section(parts, begun) {
  const all = number.toLocaleString("en");
  return {
    title: "A snapshot held for minutes",
    why: `${PER_SECOND.toLocaleString("en")} jobs a second, one enqueueMany() every ${EVERY_MS} ms, for two worker processes (lease ${LEASE}); a transaction keeps its snapshot for four minutes, in which one worker is killed and another one started. Time from the call to the handler's first line, of the jobs of each part of the time; of a job that ran twice the first one. All ${all} jobs succeeded, each once; of ${number - begun.size} of them nothing more was heard from the worker that was killed.`,
    header: ["when", "p50", "p99", "longest", "server CPU a job"],
    rows: parts.map(({ what, from, count, cpuMs }) => {
      const waits = Array.from({ length: count }, (_, n) => begun.get(from + n))
        .filter((ms) => ms !== undefined)
        .sort((a, b) => a - b);
      const at = (share) => `${waits[Math.ceil(waits.length * share) - 1]} ms`;
      return [what, at(0.5), at(0.99), at(1), `${((cpuMs / count) * 1_000).toFixed(0)} µs`];
    }),
  };
}

let number = 0;

/** A part of the time: its jobs, which are numbered on, and what the server used up meanwhile. */
async function load(ground, jobs, { what, seconds }) {
  const [from, before, begin] = [number, serverCpuMs(ground.serverPid), performance.now()];
  const total = seconds * PER_SECOND;
  while (number - from < total) {
    const due = Math.min(total, Math.floor(((performance.now() - begin) / 1_000) * PER_SECOND));
    const sentAt = Date.now();
    const payloads = Array.from({ length: due - (number - from) }, () => ({ n: number++, sentAt }));
    if (payloads.length > 0) await jobs.enqueueMany(Pinned, payloads);
    await sleep(EVERY_MS);
  }
  return { what, from, count: total, cpuMs: serverCpuMs(ground.serverPid) - before };
}

/** The workers, and how long each job waited for its first run. */
class Crew {
  begun = new Map();
  #workers = [];

  constructor(url) {
    this.url = url;
  }

  async start() {
    const worker = fork(WORKER, [JSON.stringify({ url: this.url, lease: LEASE })], {
      stdio: "inherit",
    });
    this.#workers.push(worker);
    worker.on("message", (begun) => {
      for (const [n, ms] of begun) if (!this.begun.has(n)) this.begun.set(n, ms);
    });
    await once(worker, "message");
  }

  kill() {
    this.#workers.shift().kill("SIGKILL");
  }

  async end() {
    await Promise.all(
      this.#workers.map(async (worker) => {
        const ended = once(worker, "exit");
        worker.disconnect();
        await ended;
      }),
    );
  }
}
