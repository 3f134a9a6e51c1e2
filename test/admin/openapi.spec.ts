import type { Readable } from "node:stream";
import type { INestApplication } from "@nestjs/common";
import { defineJob } from "nestjs-pg-jobs";
import { Validator } from "@seriousme/openapi-schema-validator";
import { OpenAPIClientAxios, type OpenAPIClient } from "openapi-client-axios";
import { OPERATIONS } from "../../libs/jobs-admin/src/openapi/operations.js";
import { ADAPTERS, AdminApp, TOKENS } from "../support/admin-app.js";
import { handler, reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";

// The document: valid, complete, and enough to make a client from.

interface Described {
  operationId: string;
  "x-role": string;
  parameters: { in: string; schema: object }[];
}
type Paths = Record<string, Record<string, Described>>;
interface Document extends Record<string, unknown> {
  paths: Paths;
}

describe.each(ADAPTERS)("on %s", (adapter) => {
  let bench: Bench;
  let admin: AdminApp;
  let document: Document;
  /** What the framework itself routes. */
  const mounted = new Set<string>();
  beforeAll(async () => {
    bench = await Bench.open();
    admin = await AdminApp.open(bench, adapter, undefined, { before: listen });
    if (adapter === "express") addExpress(admin.app);
    document = (await admin.get("openapi.json", { as: "viewer" })).body as unknown as Document;
  });
  afterAll(async () => {
    await admin.close();
    await bench.close();
  });

  function listen(app: INestApplication): void {
    if (adapter !== "fastify") return;
    const instance = app.getHttpAdapter().getInstance() as {
      addHook(
        name: "onRoute",
        hook: (route: { method: string | string[]; url: string }) => void,
      ): void;
    };
    instance.addHook("onRoute", ({ method, url }) => {
      for (const one of [method].flat()) if (one !== "HEAD" && !url.endsWith("/")) add(one, url);
    });
  }
  function addExpress(app: INestApplication): void {
    const { router } = app.getHttpAdapter().getInstance() as {
      router: { stack: { route?: { path: string; methods: Record<string, boolean> } }[] };
    };
    for (const { route } of router.stack)
      for (const method of Object.keys(route?.methods ?? {})) add(method, route!.path);
  }
  function add(method: string, url: string): void {
    const path = url.replace(/^\/admin/, "").replaceAll(/:(\w+)/g, "{$1}");
    mounted.add(`${method.toLowerCase()} ${path === "" ? "/" : path}`);
  }

  it("is valid", async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document));
    expect([valid, errors]).toEqual([true, undefined]);
    expect(document).toMatchObject({ openapi: "3.1.0", servers: [{ url: "../admin" }] });
  });

  it("says what fits in each path, and what only an admin says", () => {
    const text = { type: "string" };
    const fits: Record<string, object> = {
      jobs: { ...text, pattern: expect.stringMatching(/^\^.*\$$/) },
      bulk: { ...text, pattern: "^[1-9][0-9]{0,17}$" },
      queues: { ...text, minLength: 1, maxLength: 64 },
      schedules: { ...text, minLength: 1, maxLength: 64 },
    };
    const named = Object.entries(document.paths).filter(([path]) => path.includes("{"));
    for (const [path, methods] of named)
      for (const { parameters } of Object.values(methods)) {
        const [schema, ...more] = parameters
          .filter((one) => one.in === "path")
          .map((one) => one.schema);
        expect([path, schema]).toMatchObject([path, fits[path.split("/")[1]!]!]);
        expect(more).toEqual([]);
      }
    expect(document.paths["/jobs/{id}/requeue"]!.post).toMatchObject({
      "x-role": "operator",
      requestBody: {
        content: {
          "application/json": { schema: { properties: { payload: { "x-role": "admin" } } } },
        },
      },
    });
  });

  it("says what stands in headers, filters and problems", () => {
    const { components } = document as unknown as {
      components: { schemas: Record<string, { properties: Record<string, object> }> };
    };
    expect(components.schemas.Problem!.properties).toMatchObject({
      code: { anyOf: [{ enum: expect.arrayContaining(["JOB_RUNS", "INTERNAL"]) }, {}] },
      state: {},
      role: {},
      needed: {},
      key: {},
      ids: {},
    });
    expect(Object.keys(components.schemas.BulkFilter!.properties)).toContain("payload");
    const cancel = document.paths["/jobs/{id}/cancel"]!.post as unknown as {
      parameters: object[];
      responses: Record<number, { headers?: object }>;
    };
    expect(cancel.parameters).toContainEqual(
      expect.objectContaining({
        name: "Idempotency-Key",
        schema: { type: "string", minLength: 1, maxLength: 255, pattern: "^[!-~]{1,255}$" },
      }),
    );
    const named = Object.entries(cancel.responses).map(([status, { headers = {} }]) => [
      status,
      ...Object.keys(headers),
    ]);
    expect(named).toEqual(
      expect.arrayContaining([
        ["200", "Idempotency-Replayed"],
        ["409", "Idempotency-Replayed"],
        ["401", "WWW-Authenticate"],
        ["429", "Retry-After"],
        ["503", "Retry-After"],
      ]),
    );
  });

  it("has every route, and nothing else", () => {
    const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    expect(documented.sort()).toEqual([...mounted].sort());
    expect(documented).toHaveLength(OPERATIONS.length);
  });

  it("refers to what is there, and names each operation once", () => {
    const text = JSON.stringify(document);
    const { schemas } = document.components as { schemas: object };
    const names = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!);
    expect(new Set(names)).toEqual(new Set(Object.keys(schemas)));
    const ids = OPERATIONS.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const roles = Object.values(document.paths).flatMap(Object.values) as Paths[string][string][];
    expect(roles.every((one) => ["viewer", "operator", "admin"].includes(one["x-role"]))).toBe(
      true,
    );
  });

  it("makes a client that reaches every operation", async () => {
    const { id } = await admin.jobs.enqueue("waits", {}, { delay: "1h" });
    const doomed = (await admin.jobs.enqueue("waits", {}, { delay: "1h" })).id;
    await admin.jobs.enqueue("waits", {}, { delay: "1h", queue: "bulk" });
    await bench.worker([handler(defineJob("served", { queue: "served" }), () => "done")]);
    const { id: over } = await admin.jobs.enqueue("served", {}, { queue: "served" });
    await reached(bench, over, "succeeded");
    await admin.jobs.schedules.upsert("daily", "waits", { cron: "@daily" });
    const api = new OpenAPIClientAxios({
      definition: structuredClone(document) as never,
      withServer: { url: `${admin.url}/admin` },
      axiosConfigDefaults: {
        headers: { authorization: `Bearer ${TOKENS.admin}` },
        validateStatus: () => true,
        proxy: false,
        // axios has a way of its own with lists; the document says the usual one
        paramsSerializer: { indexes: null },
      },
    });
    const client: OpenAPIClient = await api.init();
    const why = { why: "a client said so" };
    const calls: Record<string, [parameters?: Record<string, unknown>, body?: unknown]> = {
      getRoutes: [],
      getStats: [],
      followEvents: [],
      listJobs: [{ state: ["queued", "dead"], limit: 3 }],
      getJob: [{ id }],
      getHistory: [{ id }],
      getLogs: [{ id, limit: 5 }],
      cancelJob: [{ id }],
      requeueJob: [{ id }, { payload: { again: true } }],
      deleteJob: [{ id: doomed }],
      processQueue: [undefined, { queue: "served", seconds: 1 }],
      previewBulk: [undefined, { action: "delete", queue: "bulk" }],
      startBulk: [undefined, { action: "delete", queue: "bulk", expected: 1, ...why }],
      listBulk: [{ limit: 1 }],
      getBulk: [{ id: "1" }],
      stopBulk: [{ id: "1" }],
      listAudit: [{ operator: "admin" }],
      listDeadLetters: [{ queue: "default" }],
      listQueues: [],
      getQueue: [{ name: "default" }],
      pauseQueue: [{ name: "default" }, { ...why, kind: "waits" }],
      resumeQueue: [{ name: "default", kind: "waits" }],
      limitQueue: [{ name: "default" }, { ...why, limit: { max: 2 }, rate: null }],
      listSchedules: [],
      runSchedule: [{ name: "daily" }],
      pauseSchedule: [{ name: "daily" }, why],
      resumeSchedule: [{ name: "daily" }],
      listWorkers: [],
      getOpenApi: [],
    };
    expect(Object.keys(calls).sort()).toEqual(OPERATIONS.map((one) => one.id).sort());
    for (const [name, [parameters, body]] of Object.entries(calls)) {
      const stream = name === "followEvents" ? { responseType: "stream" as const } : {};
      const { status, data } = await client[name]!(parameters as never, body, stream);
      expect([name, status, data]).toEqual([name, 200, expect.any(Object)]);
      if (stream.responseType) (data as Readable).destroy();
    }
    expect(await admin.jobs.get(id)).toMatchObject({ state: "queued", payload: { again: true } });
  });
});
