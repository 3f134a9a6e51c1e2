import { serveHttp } from "nestjs-pg-jobs-samples";
import { AdminAppModule } from "./admin-app.module.js";
import { config } from "./config.js";

await serveHttp(AdminAppModule, {
  host: config.host,
  port: config.port,
  portVariable: "ADMIN_PORT",
});
