import { percentile } from "../numbers.mjs";
import { settledExactlyOnce } from "./exactly-once.mjs";
import { keptPace } from "./pace.mjs";

/** From the call of one job to the first line of its handler in another process; nothing else to do. */
export async function latencyIdle(stage, { jobs }) {
  const warmUp = 20;
  const all = warmUp + jobs;
  const workers = await stage.workers(1, { handler: "noop", jobs: all, timed: true });
  const sentAt = await stage.producer.call("nowAndThen", { count: all });
  return await latencies(stage, workers, { sentAt, jobs: all, from: warmUp });
}

const WARM_UP_SECONDS = 0.5;

/**
 * The same while jobs come at a steady pace to `processes` workers of so many `slots`, some of them in transactions of
 * the application: there it counts from the commit. Those of the first half second do not count: there processes
 * connect, and meet their code, for the first time. With `pinnedFor`, a transaction has been open since before so many
 * jobs were run. Who does not keep the pace has failed; with `mayLag`, `rate` tells of it.
 */
export async function latencySteady(
  stage,
  { perSecond, seconds, connections = 0, holdMs = 0, pinnedFor = 0, processes = 1, slots, mayLag },
) {
  const warmUp = perSecond * WARM_UP_SECONDS;
  const paced = warmUp + perSecond * seconds;
  const jobs = pinnedFor + paced;
  if (pinnedFor > 0) await stage.pin();
  const workers = await stage.workers(processes, { handler: "noop", jobs, timed: true, slots });
  if (pinnedFor > 0) await stage.producer.call("fill", { count: pinnedFor });
  await stage.ran(workers, pinnedFor);
  const before = await stage.spent();
  const { sentAt, achieved } = await stage.producer.call("steadily", {
    perSecond,
    count: paced,
    first: pinnedFor,
    connections,
    holdMs,
  });
  if (!mayLag) keptPace(achieved, perSecond);
  await stage.ran(workers, jobs);
  const { serverMs } = await stage.spent();
  return {
    ...(mayLag ? { rate: achieved } : {}),
    ...(await latencies(stage, workers, { sentAt, jobs, first: pinnedFor, from: warmUp })),
    serverMs: ((serverMs - before.serverMs) / paced) * 1_000,
  };
}

/** Of the jobs from number `first` on, but for the `from` first ones of them. */
async function latencies(stage, workers, { sentAt, jobs, first = 0, from = 0 }) {
  await stage.ran(workers, jobs);
  await stage.producer.call("settled");
  const reports = await Promise.all(workers.map((worker) => worker.call("report", jobs)));
  await settledExactlyOnce(stage, reports, { jobs });
  const startOf = (n) => Math.max(...reports.map(({ startedAt }) => startedAt[n]));
  const waits = Array.from(sentAt, (at, index) => startOf(first + index) - at).slice(from);
  return {
    p50: percentile(waits, 0.5),
    p95: percentile(waits, 0.95),
    p99: percentile(waits, 0.99),
  };
}
