import { serveHttp } from "nestjs-pg-jobs-samples";
import { ApiModule } from "./api.module.js";
import { config } from "./config.js";

await serveHttp(ApiModule, { host: config.host, port: config.port, portVariable: "API_PORT" });
