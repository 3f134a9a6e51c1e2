import { settledExactlyOnce } from "./exactly-once.mjs";

/** More than anybody enqueues in one run. */
const MOST_JOBS = 6_000_000;

/** Callers and a worker process at once, each as fast as it can; the time runs until the last job is settled. */
export async function flatOut(stage, { callers, seconds, size = 1 }) {
  const { producer } = stage;
  const workers = await stage.workers(1, { handler: "noop", jobs: MOST_JOBS });
  const made = await producer.call("flatOut", { callers, seconds, size });
  await stage.ran(workers, made.count);
  const end = await producer.call("settled");
  const reports = await Promise.all(workers.map((worker) => worker.call("report", made.count)));
  await settledExactlyOnce(stage, reports, { jobs: made.count });
  return { rate: (made.count / (end.at - made.from)) * 1_000 };
}
