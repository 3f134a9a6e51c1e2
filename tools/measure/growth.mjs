// How the cost of a job grows with what there is: queues, kinds, workers. CPU of the server is what counts; clients share
// the machine, so that the rate says less the more of them there are.
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { serverCpuMs } from "../../bench/machine/cpu.mjs";
import { enqueue } from "../../libs/jobs/dist/store/transitions/enqueue.js";
import { ensureLane, ensureQueue } from "../../libs/jobs/dist/store/queues/lanes.js";
import { newJob } from "../new-job.mjs";
import { median, perSecond, ratio } from "./ground.mjs";

const RUNS = 3;
export const JOBS = 60_000;
const BATCH = 1_000;
const WORKER = path.join(import.meta.dirname, "growth.worker.mjs");
/** Until they are due all workers have started; on one core each takes its time. */
const dueInMs = (workers) => 4_000 + workers * 1_500;

const SLOTS = { concurrency: 1_000, prefetch: 500 };
export const PLAIN = { queues: 1, kinds: 1, workers: 1, slots: SLOTS };
const both = (count) => ({ concurrency: count, prefetch: count });

const CASES = [
  { ...PLAIN, what: "1 queue, 1 kind, 1 worker process" },
  { ...PLAIN, what: "10 queues", queues: 10 },
  { ...PLAIN, what: "100 queues", queues: 100 },
  { ...PLAIN, what: "10 kinds in the queue", kinds: 10 },
  { ...PLAIN, what: "100 kinds in the queue", kinds: 100 },
  { ...PLAIN, what: "2 worker processes", workers: 2 },
  { ...PLAIN, what: "4 worker processes", workers: 4 },
  { ...PLAIN, what: "8 worker processes", workers: 8 },
  { ...PLAIN, what: "100 slots, 100 prefetched", slots: both(100) },
  { ...PLAIN, what: "10 slots, 10 prefetched", slots: both(10) },
];

export async function measureGrowth(ground) {
  const found = CASES.map((one) => ({ ...one, cpu: [], rates: [] }));
  for (let run = 0; run < RUNS; run++)
    for (const one of found) {
      const { cpuMs, tookMs } = await drained(ground, one);
      one.cpu.push((cpuMs / JOBS) * 1_000);
      one.rates.push((JOBS / tookMs) * 1_000);
    }
  const base = median(found[0].cpu);
  return {
    title: "How cost grows",
    why: `A backlog of ${JOBS / 1_000}k no-op jobs, drained by Nest apps in processes of their own, with 1,000 slots and 500 prefetched each (where nothing else is said), divided among its queues: CPU of the server for claiming and settling, and jobs a second. ${RUNS} runs, in turn.`,
    header: ["what", "server CPU a job", "against the first row", "jobs"],
    rows: found.map(({ what, cpu, rates }) => [
      what,
      `${median(cpu).toFixed(1)} µs`,
      `${ratio(median(cpu), base)} ×`,
      perSecond(median(rates)),
    ]),
  };
}

export async function drained(ground, { queues, kinds, workers, slots, metrics = null }) {
  await ground.clear();
  const dueAt = Date.now() + dueInMs(workers);
  await fill(ground, { queues, kinds, dueAt });
  await ground.analyse();
  const started = Array.from({ length: workers }, () =>
    fork(WORKER, [JSON.stringify({ url: ground.url, queues, kinds, slots, metrics })], {
      stdio: "inherit",
    }),
  );
  try {
    const ran = started.map(() => 0);
    const clientCpu = started.map(() => 0);
    let first = Number.POSITIVE_INFINITY;
    await Promise.all(started.map((worker) => once(worker, "message")));
    if (Date.now() > dueAt)
      throw new Error(`${workers} workers have not started before the jobs were due`);
    started.forEach((worker, index) =>
      worker.on("message", (told) => {
        ran[index] = told.ran;
        clientCpu[index] = told.cpuMs;
        first = Math.min(first, told.first);
      }),
    );
    const before = serverCpuMs(ground.serverPid);
    while (ran.reduce((sum, count) => sum + count, 0) < JOBS) await sleep(2);
    while ((await unfinished(ground)) > 0) await sleep(2);
    return {
      cpuMs: serverCpuMs(ground.serverPid) - before,
      clientCpuMs: clientCpu.reduce((sum, ms) => sum + ms, 0),
      tookMs: Date.now() - first,
    };
  } finally {
    await Promise.all(
      started.map(async (worker) => {
        const ended = once(worker, "exit");
        worker.disconnect();
        await ended;
      }),
    );
  }
}

export const queueName = (index) => `growth-${index}`;
export const kindName = (queue, index) => `growth-${queue}-${index}`;

async function fill(ground, { queues, kinds, dueAt }) {
  const lists = queues * kinds;
  for (let q = 0; q < queues; q++) {
    const queue = queueName(q);
    const { id } = await ensureQueue(ground.front, queue);
    for (let k = 0; k < kinds; k++) {
      const kind = kindName(q, k);
      const { lane } = await ensureLane(ground.front, id, kind, 0);
      for (let left = JOBS / lists; left > 0; left -= BATCH) {
        const ids = await ground.ids.take(ground.front, Math.min(BATCH, left));
        const delayMs = dueAt - Date.now();
        const jobs = ids.map((one) => ({ ...newJob(one, { queue, lane, kind }, "{}"), delayMs }));
        await enqueue(ground.front, id, jobs);
      }
    }
  }
}

/** By the counters: counting rows would walk the dead ones. */
async function unfinished(ground) {
  const { rows } = await ground.admin.query(
    `select coalesce(sum(n), 0)::float8 as n from (
       select n from jobs.stat where state = 0 union all select n from jobs.stat_delta where state = 0) counted`,
  );
  return rows[0].n;
}
