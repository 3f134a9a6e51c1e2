import "reflect-metadata";
import { NestFactory } from "@nestjs/core";
import { JobHandler, JobQueue, JobsModule } from "nestjs-pg-jobs";
import { drain, sessionWith } from "./drain.mjs";
import { median, perSecond, rate, ratio } from "./ground.mjs";
import { moduleOf } from "./module.mjs";

const RUNS = 3;
const JOBS = 60_000;
const SLOTS = { concurrency: 200, prefetch: 500 };

/** What the library costs on top of its statements: a Nest app with a handler that does nothing. */
export async function measureWholePath(ground) {
  const bare = [];
  const whole = [];
  const idle = [];
  for (let run = 0; run < RUNS; run++) {
    await ground.clear();
    await ground.fill(JOBS);
    await ground.analyse();
    const [claims, settles] = [
      await sessionWith(ground, "claim"),
      await sessionWith(ground, "settle"),
    ];
    bare.push(await rate(JOBS, () => drain(ground, { claims, settles, count: JOBS, batch: 500 })));
    await ground.database.release(claims);
    await ground.database.release(settles);
    await ground.clear();
    await ground.fill(JOBS);
    await ground.analyse();
    const app = await worker(ground);
    whole.push(app.rate);
    idle.push(...app.latencies);
  }
  idle.sort((a, b) => a - b);
  const at = (share) => `${idle[Math.floor(idle.length * share)].toFixed(2)} ms`;
  return {
    title: "The whole path",
    why: `A backlog of ${JOBS / 1_000}k no-op jobs, history kept: the bare statements at batch 500, and a Nest app with a handler (${SLOTS.concurrency} slots, prefetch ${SLOTS.prefetch}). Latency: from the call of enqueue() to the handler's first line, in the same process, nothing else to do.`,
    header: ["what", "jobs", "against the bare loop"],
    rows: [
      ["bare loop of statements", perSecond(median(bare)), "1.00 ×"],
      [
        "Nest app, one process",
        perSecond(median(whole)),
        `${ratio(median(whole), median(bare))} ×`,
      ],
      ["latency when idle", `p50 ${at(0.5)}`, `p99 ${at(0.99)}`],
    ],
  };
}

async function worker(ground) {
  let ran = 0;
  let first;
  let last;
  let started;
  class Handlers {
    noop() {
      first ??= performance.now();
      started?.(performance.now());
      if (++ran === JOBS) last = performance.now();
    }
  }
  JobHandler("noop")(
    Handlers.prototype,
    "noop",
    Object.getOwnPropertyDescriptor(Handlers.prototype, "noop"),
  );
  const feature = moduleOf({ providers: [Handlers] });
  const app = await NestFactory.createApplicationContext(
    moduleOf({
      imports: [
        JobsModule.forRoot({ connection: { url: ground.url } }),
        JobsModule.forWorker({ imports: [feature], queues: { measured: SLOTS, default: {} } }),
      ],
    }),
    { logger: ["error"] },
  );
  while (last === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
  const queue = app.get(JobQueue);
  const latencies = [];
  for (let i = 0; i < 300; i++) {
    const start = new Promise((resolve) => (started = resolve));
    const from = performance.now();
    const enqueued = queue.enqueue("noop", { i }, { queue: "measured" });
    latencies.push((await start) - from);
    await enqueued;
  }
  await app.close();
  return { rate: (JOBS / (last - first)) * 1_000, latencies: latencies.slice(50) };
}
