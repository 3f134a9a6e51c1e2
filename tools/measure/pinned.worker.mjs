// A worker of pinned.mjs: tells for each job which it is, and how long after its enqueue it began.
import "reflect-metadata";
import { NestFactory } from "@nestjs/core";
import { JobHandler, JobsModule, defineJob } from "nestjs-pg-jobs";
import { KIND, QUEUE } from "./pinned.mjs";
import { moduleOf } from "./module.mjs";

const TELL_EVERY_MS = 100;
const { url, lease } = JSON.parse(process.argv[2]);

let begun = [];
class Handlers {
  run({ n, sentAt }) {
    begun.push([n, Date.now() - sentAt]);
  }
}
JobHandler(defineJob(KIND, { queue: QUEUE }))(
  Handlers.prototype,
  "run",
  Object.getOwnPropertyDescriptor(Handlers.prototype, "run"),
);

const app = await NestFactory.createApplicationContext(
  moduleOf({
    imports: [
      JobsModule.forRoot({ connection: { url } }),
      JobsModule.forWorker({
        imports: [moduleOf({ providers: [Handlers] })],
        queues: { [QUEUE]: { concurrency: 100, prefetch: 100 } },
        lease,
      }),
    ],
  }),
  { logger: ["error"] },
);
process.send([]);
setInterval(() => {
  if (begun.length > 0 && process.connected) process.send(begun);
  begun = [];
}, TELL_EVERY_MS).unref();
process.on("disconnect", () => void app.close().then(() => process.exit()));
