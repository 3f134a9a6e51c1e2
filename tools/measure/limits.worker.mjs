// A worker of limits.mjs: tells how many jobs it has run, but for those of the hot key.
import { setTimeout as sleep } from "node:timers/promises";
import "reflect-metadata";
import { NestFactory } from "@nestjs/core";
import { JobHandler, JobsModule, defineJob } from "nestjs-pg-jobs";
import { moduleOf } from "./module.mjs";

const { url, queue, limits } = JSON.parse(process.argv[2]);

let ran = 0;
class Handlers {
  async run({ tenant }) {
    await sleep(5);
    if (tenant !== "hot") ran++;
  }
}
JobHandler(defineJob("limited", { queue, ...limits }))(
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
        queues: { [queue]: { concurrency: 25 } },
      }),
    ],
  }),
  { logger: ["error", "warn"] },
);
process.send({ ran });
let told = 0;
setInterval(() => {
  if (ran === told) return;
  told = ran;
  process.send({ ran });
}, 4).unref();
process.on("disconnect", () => void app.close().then(() => process.exit()));
