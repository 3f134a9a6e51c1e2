import { runWorker } from "nestjs-pg-jobs";
import { endWithLauncher, tellLauncher } from "nestjs-pg-jobs-samples";
import { config } from "./config.js";
import { WorkerAppModule } from "./worker-app.module.js";

endWithLauncher();
const { port } = await runWorker(WorkerAppModule, {
  health: { port: config.port, host: config.host },
});
tellLauncher({ type: "ready", port });
