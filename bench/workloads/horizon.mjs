import { setTimeout as delay } from "node:timers/promises";
import { settledExactlyOnce } from "./exactly-once.mjs";

const ROUND = 10_000;

/**
 * Jobs enqueued and run in rounds, maybe while a transaction stays open; what counts is the last part of them. Those
 * before it are spread over some seconds, so that autovacuum comes by, which can remove nothing of what is pinned.
 */
export async function horizon(stage, { before, counted, pinned, seconds = 0 }) {
  const { producer } = stage;
  if (pinned) await stage.pin();
  const jobs = before + counted;
  const workers = await stage.workers(1, { handler: "noop", jobs });
  const begun = performance.now();
  let from;
  for (let done = 0; done < jobs; done += ROUND) {
    if (done <= before)
      await delay(Math.max(begun + (done / before) * seconds * 1_000 - performance.now(), 0));
    if (done === before) from = performance.now();
    await producer.call("fill", { count: ROUND, first: done });
    await stage.ran(workers, done + ROUND);
  }
  const ms = performance.now() - from;
  await producer.call("settled");
  const reports = await Promise.all(workers.map((worker) => worker.call("report", jobs)));
  await settledExactlyOnce(stage, reports, { jobs });
  return { rate: (counted / ms) * 1_000 };
}
