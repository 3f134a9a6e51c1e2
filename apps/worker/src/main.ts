import { runWorker } from "nestjs-pg-jobs";
import { endWithLauncher, tellLauncher } from "nestjs-pg-jobs-samples";
import { config } from "./config.js";
import { trimHeap } from "./trim-heap.js";
import { WorkerAppModule } from "./worker-app.module.js";

endWithLauncher();
const { port } = await runWorker(WorkerAppModule, {
  health: { port: config.port, host: config.host },
});
tellLauncher({ type: "ready", port });
setTimeout(trimHeap, 5_000).unref(); // the first jobs come first
