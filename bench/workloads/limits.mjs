import { setTimeout as sleep } from "node:timers/promises";
import { costOf } from "./cost.mjs";
import { settledExactlyOnce } from "./exactly-once.mjs";

/** All are there before the first of them is due. */
const DELAY = "4s";
/** What has run by then is settled. */
const SETTLED_MS = 1_000;

/**
 * Jobs of so many keys, within `limits` that hold over several worker processes; with `hot`, beside so many of one more
 * key that is at its limit. The time runs from the first handler's start until the last one's.
 */
export async function limited(stage, { jobs, hot = 0, keys, processes, ...work }) {
  const { producer } = stage;
  const workers = await stage.workers(processes, { handler: "waits-5ms", jobs, ...work });
  if (hot > 0) await producer.call("setAside", hot);
  await producer.call("fill", { count: jobs, keys, delay: DELAY });
  await stage.sql("analyze");
  await stage.ran(workers, 1);
  const { serverMs } = await costOf(stage, async () => await stage.ran(workers, jobs));
  const reports = await Promise.all(workers.map((worker) => worker.call("report", jobs)));
  await (hot > 0 ? sleep(SETTLED_MS) : producer.call("settled"));
  await settledExactlyOnce(stage, reports, { jobs, beside: hot });
  // one of them may have come too late for a few keys
  const took = reports.filter((report) => report.first !== undefined);
  const first = Math.min(...took.map((report) => report.first));
  const last = Math.max(...took.map((report) => report.last));
  return { rate: (jobs / (last - first)) * 1_000, serverMs: (serverMs / jobs) * 1_000 };
}
