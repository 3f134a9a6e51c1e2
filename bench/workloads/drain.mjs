import { costOf } from "./cost.mjs";
import { settledExactlyOnce } from "./exactly-once.mjs";
import { tookPart } from "./took-part.mjs";

/**
 * Fills the queue, then works it off. The time runs from the first handler's start until the peer's tables say that
 * nothing is left; without `stalls`, pauses in which no handler began do not count.
 */
export async function drain(
  stage,
  { jobs, processes = 1, runsEach = 1, analysed = true, stalls = true, ...work },
) {
  const { producer } = stage;
  if (!analysed) await stage.autovacuum(false);
  try {
    const fill = await costOf(stage, async () => {
      const before = await producer.call("cpuMs");
      await producer.call("fill", { count: jobs });
      return (await producer.call("cpuMs")) - before;
    });
    if (analysed) await stage.sql("analyze");
    // As a backlog meets it: the first change of each page is written to the WAL as a whole.
    await stage.sql("checkpoint");

    let end;
    let reports;
    let workers;
    const run = await costOf(stage, async () => {
      workers = await stage.workers(processes, { handler: "noop", jobs, ...work });
      await stage.ran(workers, jobs * runsEach);
      end = await producer.call("settled");
      reports = await Promise.all(workers.map((worker) => worker.call("report", jobs)));
      return reports.reduce((sum, report) => sum + report.cpuMs, 0);
    });
    const rss = await Promise.all(workers.map((worker) => worker.call("rssMb")));
    await settledExactlyOnce(stage, reports, { jobs, runsEach });
    tookPart(reports);

    const first = Math.min(...reports.map((report) => report.first));
    const stalled = stalls ? 0 : Math.max(...reports.map((report) => report.stalledMs));
    const transactions = await stage.close();
    return {
      rate: (jobs / (end.at - first - stalled)) * 1_000,
      clientMs: ((fill.clientMs + run.clientMs) / jobs) * 1_000,
      serverMs: ((fill.serverMs + run.serverMs) / jobs) * 1_000,
      rssMb: Math.max(...rss),
      ...(fill.walBytes === undefined
        ? {}
        : {
            walBytes: (fill.walBytes + run.walBytes) / jobs,
            transactions: (transactions - end.looks) / jobs,
          }),
    };
  } finally {
    if (!analysed) await stage.autovacuum(true);
  }
}
