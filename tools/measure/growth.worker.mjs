// A worker of growth.mjs: tells how many jobs it has run, and when it ran its first one.
import "reflect-metadata";
import { NestFactory } from "@nestjs/core";
import { JobHandler, JobsModule, defineJob } from "nestjs-pg-jobs";
import { JobsMetrics, JobsMetricsModule } from "nestjs-pg-jobs/prometheus";
import { kindName, queueName } from "./growth.mjs";
import { moduleOf } from "./module.mjs";

const TELL_EVERY_MS = 4;
const SCRAPE_EVERY_MS = 1_000;
const { url, queues, kinds, slots, metrics } = JSON.parse(process.argv[2]);

let ran = 0;
let first;
/** CPU of this process since then. */
let begun;
// oxlint-disable-next-line typescript/no-extraneous-class -- its methods follow
class Handlers {}
for (let q = 0; q < queues; q++)
  for (let k = 0; k < kinds; k++) {
    const kind = kindName(q, k);
    const descriptor = {
      configurable: true,
      value: () => {
        if (ran++ > 0) return;
        first = Date.now();
        begun = process.cpuUsage();
      },
    };
    Object.defineProperty(Handlers.prototype, kind, descriptor);
    JobHandler(defineJob(kind, { queue: queueName(q) }))(Handlers.prototype, kind, descriptor);
  }

const ofEach = {
  concurrency: Math.ceil(slots.concurrency / queues),
  prefetch: Math.ceil(slots.prefetch / queues),
};
const app = await NestFactory.createApplicationContext(
  moduleOf({
    imports: [
      JobsModule.forRoot({ connection: { url } }),
      ...(metrics ? [JobsMetricsModule.forRoot()] : []),
      JobsModule.forWorker({
        imports: [moduleOf({ providers: [Handlers] })],
        queues: Object.fromEntries(
          Array.from({ length: queues }, (_, index) => [queueName(index), ofEach]),
        ),
      }),
    ],
  }),
  { logger: ["error"] },
);
process.send({ ran, first });
if (metrics === "scraped")
  setInterval(() => void app.get(JobsMetrics).text(), SCRAPE_EVERY_MS).unref();
let told = 0;
setInterval(() => {
  if (ran === told) return;
  told = ran;
  const { user, system } = process.cpuUsage(begun);
  process.send({ ran, first, cpuMs: (user + system) / 1_000 });
}, TELL_EVERY_MS).unref();
process.on("disconnect", () => void app.close().then(() => process.exit()));
