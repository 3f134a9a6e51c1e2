// What limits over all processes cost: 4 worker processes, handlers of 5 ms. Ratios count: all share the machine.
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { serverCpuMs } from "../../bench/machine/cpu.mjs";
import { ensureLane, ensureQueue } from "../../libs/jobs/dist/store/queues/lanes.js";
import { enqueue } from "../../libs/jobs/dist/store/transitions/enqueue.js";
import { newJob } from "../new-job.mjs";
import { median, perSecond, ratio } from "./ground.mjs";

const RUNS = 3;
const WORKERS = 4;
const BATCH = 5_000;
const PER_KEY = { limit: { key: "tenant", max: 3 } };
const WORKER = path.join(import.meta.dirname, "limits.worker.mjs");

const CASES = [
  { what: "no limit, 1,000 keys", limits: {}, keys: 1_000, jobs: 40_000 },
  { what: "3 at once for each of 1,000 keys", limits: PER_KEY, keys: 1_000, jobs: 40_000 },
  {
    what: "the same, beside 100,000 jobs of a key that is at its limit",
    limits: PER_KEY,
    keys: 1_000,
    jobs: 40_000,
    hot: 100_000,
  },
  { what: "3 at once for each of 10 keys", limits: PER_KEY, keys: 10, jobs: 20_000 },
  { what: "50 at once for all", limits: { limit: { max: 50 } }, keys: 1_000, jobs: 20_000 },
  {
    what: "2,000 a second for all",
    limits: { rate: { max: 2_000, per: "1s" } },
    keys: 1_000,
    jobs: 10_000,
  },
];

export async function measureLimits(ground) {
  const found = CASES.map((one) => ({ ...one, cpu: [], rates: [], aside: [] }));
  for (let run = 0; run < RUNS; run++)
    for (const [index, one] of found.entries()) {
      const { cpuMs, tookMs, asideMs } = await worked(ground, `limits-${run}-${index}`, one);
      one.cpu.push((cpuMs / one.jobs) * 1_000);
      one.rates.push((one.jobs / tookMs) * 1_000);
      one.aside.push(asideMs);
    }
  const base = median(found[0].rates);
  return {
    title: "Limits",
    why: `${WORKERS} worker processes with 25 slots each, handlers of 5 ms; jobs a second, and CPU of the server for claiming and settling. Jobs of the hot key came first and were set aside before the others came${asides(found)}. ${RUNS} runs, in turn.`,
    header: ["what", "jobs", "against no limit", "server CPU a job"],
    rows: found.map(({ what, cpu, rates }) => [
      what,
      perSecond(median(rates)),
      `${ratio(median(rates), base)} ×`,
      `${median(cpu).toFixed(1)} µs`,
    ]),
  };
}

const asides = (found) => {
  const { hot, aside } = found.find((one) => one.hot);
  return ` (${(median(aside) / 1_000).toFixed(1)} s for ${hot / 1_000}k)`;
};

async function worked(ground, queue, { limits, keys, jobs, hot = 0 }) {
  await ground.clear();
  const settings = JSON.stringify({ url: ground.url, queue, limits });
  const started = Array.from({ length: WORKERS }, () =>
    fork(WORKER, [settings], { stdio: "inherit" }),
  );
  try {
    const ran = started.map(() => 0);
    await Promise.all(started.map((worker) => once(worker, "message")));
    started.forEach((worker, index) => worker.on("message", (told) => (ran[index] = told.ran)));
    const { id } = await ensureQueue(ground.front, queue);
    const { lane } = await ensureLane(ground.front, id, "limited", 0);
    // they read their lanes
    await sleep(3_000);
    const asideMs = await aside(ground, { queue, id, lane }, hot);
    await fill(ground, { queue, id, lane }, jobs, (n) => `t${n % keys}`, 3_000);
    await ground.analyse();
    while (ran.every((count) => count === 0)) await sleep(1);
    const from = performance.now();
    const before = serverCpuMs(ground.serverPid);
    while (ran.reduce((sum, count) => sum + count, 0) < jobs) await sleep(2);
    return {
      cpuMs: serverCpuMs(ground.serverPid) - before,
      tookMs: performance.now() - from,
      asideMs,
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

/** Jobs of one key, until they are all out of the way. */
async function aside(ground, where, count) {
  if (count === 0) return 0;
  const from = performance.now();
  await fill(ground, where, count, () => "hot", 0);
  for (;;) {
    const { rows } = await ground.admin.query("select count(*)::integer as n from jobs.parked");
    if (rows[0].n > count * 0.98) return performance.now() - from;
    await sleep(20);
  }
}

async function fill(ground, { queue, id, lane }, count, keyOf, delayMs) {
  const dueAt = Date.now() + delayMs + count / 40;
  for (let done = 0; done < count; done += BATCH) {
    const ids = await ground.ids.take(ground.front, Math.min(BATCH, count - done));
    const jobs = ids.map((one, index) => ({
      ...newJob(
        one,
        { queue, lane, kind: "limited" },
        JSON.stringify({ tenant: keyOf(done + index) }),
      ),
      delayMs: delayMs === 0 ? 0 : Math.max(0, dueAt - Date.now()),
    }));
    await enqueue(ground.front, id, jobs);
  }
}
