// Schedules: how late their jobs begin, and what a tick costs the server, with 1 to 1,000 of them due each second.
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { serverCpuMs } from "../../bench/machine/cpu.mjs";
import { ensureLane, ensureQueue } from "../../libs/jobs/dist/store/queues/lanes.js";

const WORKER = path.join(import.meta.dirname, "growth.worker.mjs");
const WORKERS = 3;
const SECONDS = 20;
const SLOTS = { concurrency: 100, prefetch: 100 };
const KIND = "growth-0-0";
const QUEUE = "growth-0";

export async function measureSchedules(ground) {
  const rows = [];
  for (const count of [0, 1, 100, 1_000]) rows.push(await ticking(ground, count));
  return {
    title: "Schedules",
    why: `So many schedules that have a tick each second, for ${SECONDS} s, and ${WORKERS} worker processes that handle their jobs: how long after its tick a job began, and CPU of the server for all that these processes do, of which the first row is what they do without schedules.`,
    header: ["schedules", "ticks seen to", "began after, p50", "p99", "server CPU a second"],
    rows,
  };
}

async function ticking(ground, count) {
  await ground.clear();
  await ground.admin.query("delete from jobs.schedule");
  const workers = Array.from({ length: WORKERS }, () =>
    fork(WORKER, [JSON.stringify({ url: ground.url, queues: 1, kinds: 1, slots: SLOTS })], {
      stdio: "inherit",
    }),
  );
  try {
    await Promise.all(workers.map((worker) => once(worker, "message")));
    await sleep(3_000);
    await schedule(ground, count);
    const cpu = serverCpuMs(ground.serverPid);
    await sleep(SECONDS * 1_000);
    const cpuMs = serverCpuMs(ground.serverPid) - cpu;
    await ground.admin.query("update jobs.schedule set paused_at = now()");
    await sleep(1_500);
    const { rows } = await ground.admin.query(
      `select count(*)::integer as jobs, count(distinct (headers ->> 'schedule', run_at))::integer as ticks,
         percentile_cont(array[0.5, 0.99]) within group (order by extract(epoch from started_at - run_at) * 1000) as late
       from jobs.done`,
    );
    const [{ jobs, ticks, late }] = rows;
    if (jobs !== ticks) throw new Error(`${jobs} jobs of ${ticks} ticks`);
    const ms = (value) => (value == null ? "" : `${value.toFixed(0)} ms`);
    return [
      String(count),
      String(ticks),
      ms(late?.[0]),
      ms(late?.[1]),
      `${(cpuMs / SECONDS).toFixed(0)} ms`,
    ];
  } finally {
    await Promise.all(
      workers.map(async (worker) => {
        const ended = once(worker, "exit");
        worker.disconnect();
        await ended;
      }),
    );
  }
}

/** As `jobs.schedules.upsert` makes them, in one statement. */
async function schedule(ground, count) {
  const { id } = await ensureQueue(ground.front, QUEUE);
  const { lane } = await ensureLane(ground.front, id, KIND, 0);
  await ground.admin.query(
    `insert into jobs.schedule (name, queue_id, lane, kind, cron, time_zone, overlap, misfire, payload, next_at)
     select 's' || n, $2, $3, $4, '* * * * * *', 'UTC', 'queue', 'one', '{}', date_trunc('second', now()) + interval '2 s'
     from generate_series(1, $1::integer) n`,
    [count, id, lane, KIND],
  );
}
