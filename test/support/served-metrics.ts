import { JobsModule } from "nestjs-pg-jobs";
import { JobsMetrics, JobsMetricsModule } from "nestjs-pg-jobs/prometheus";
import { Registry } from "prom-client";
import { type Bench, feature } from "./harness.js";
import { handler, reached } from "./handlers.js";
import { Scraped } from "./scraped.js";
import { until } from "./until.js";

/** What a worker tells that has had a job which ended and one that died: some of every metric. */
export async function servedMetrics(bench: Bench): Promise<Scraped> {
  const app = await bench.app([
    bench.root(),
    JobsMetricsModule.forRoot({ registry: new Registry() }),
    JobsModule.forWorker({
      imports: [
        feature([
          handler("works", () => "done"),
          handler("fails", () => Promise.reject(new Error("no use")), { attempts: 1 }),
        ]),
      ],
      poll: "100ms",
    }),
  ]);
  const jobs = await bench.producer();
  await reached(bench, (await jobs.enqueue("works")).id, "succeeded");
  await reached(bench, (await jobs.enqueue("fails")).id, "dead");
  await jobs.enqueue("nobody-knows");
  return await until(
    async () => {
      const scraped = new Scraped(await app.get(JobsMetrics).text());
      return scraped.of("jobs_attempts_count").length === 2 && scraped;
    },
    { what: "both ends are counted" },
  );
}
