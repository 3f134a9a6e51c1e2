import type { INestApplication, INestApplicationContext, Type } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import { configureHttp } from "nestjs-pg-jobs-samples";
import { AdminContract } from "./admin-contract.js";

/** The token of the admin app in the specs. */
export const ADMIN_TOKEN = "a-token-for-the-specs";
const ADMIN_VIEWER_TOKEN = "a-token-for-who-looks";

/** An answer with its body read. */
export interface Answer {
  status: number;
  headers: Headers;
  /** JSON of any shape. */
  body: Record<string, never> & { [key: string]: unknown };
}

/**
 * The sample apps inside this process. Their configuration is read once, when they are imported: so one schema
 * and one database for a spec file.
 */
export class SampleApps {
  readonly #apps: INestApplicationContext[] = [];

  constructor(schema: string, databaseUrl = process.env.DATABASE_URL!) {
    Object.assign(process.env, {
      JOBS_SCHEMA: schema,
      DATABASE_URL: databaseUrl,
      ADMIN_TOKEN,
      ADMIN_VIEWER_TOKEN,
    });
  }

  async api(): Promise<HttpApp> {
    const { ApiModule } = await import("../../apps/api/src/api.module.js");
    return await this.#serve(ApiModule);
  }

  async admin(adapter: "express" | "fastify" = "express"): Promise<HttpApp> {
    const { AdminAppModule } = await import("../../apps/admin/src/admin-app.module.js");
    return await this.#serve(AdminAppModule, adapter, new AdminContract());
  }

  async worker(): Promise<INestApplicationContext> {
    const { WorkerAppModule } = await import("../../apps/worker/src/worker-app.module.js");
    const worker = await NestFactory.createApplicationContext(WorkerAppModule, {
      logger: false,
      abortOnError: false,
    });
    this.#apps.push(worker);
    return worker;
  }

  async close(): Promise<void> {
    await Promise.all(this.#apps.splice(0).map((app) => app.close()));
  }

  async #serve(
    module: Type<unknown>,
    adapter = "express",
    contract?: AdminContract,
  ): Promise<HttpApp> {
    const quiet = { logger: false, abortOnError: false } as const;
    const app =
      adapter === "fastify"
        ? await NestFactory.create(module, new FastifyAdapter(), quiet)
        : await NestFactory.create(module, quiet);
    this.#apps.push(app);
    await configureHttp(app).listen(0, "127.0.0.1");
    return new HttpApp(app, await app.getUrl(), contract);
  }
}

/** One that listens on loopback. */
export class HttpApp {
  constructor(
    readonly app: INestApplication,
    readonly url: string,
    /** What the answers below /admin are held against. */
    private readonly contract?: AdminContract,
  ) {}

  async get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return await this.#send("GET", path, undefined, headers);
  }

  /** A string is sent as it is, everything else as JSON. */
  async post(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return await this.#send("POST", path, body, headers);
  }

  async put(path: string, body?: unknown): Promise<Answer> {
    return await this.#send("PUT", path, body, {});
  }

  async #send(
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string>,
  ): Promise<Answer> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body: typeof body === "string" || body === undefined ? body : JSON.stringify(body),
      signal: AbortSignal.timeout(15_000),
    });
    const answer = {
      status: response.status,
      headers: response.headers,
      body: (await response.json()) as Answer["body"],
    };
    const below = /^\/admin(?:\/(.*))?$/.exec(path.split("?")[0]!);
    if (below) this.contract?.check(method.toLowerCase(), below[1] ?? "", answer);
    return answer;
  }
}

/** The header that the admin app wants. */
export const asAdmin = { authorization: `Bearer ${ADMIN_TOKEN}` };

/** The same, of somebody who may only look. */
export const asViewer = { authorization: `Bearer ${ADMIN_VIEWER_TOKEN}` };
