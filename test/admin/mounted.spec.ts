import { Body, Controller, Module, Post, VersioningType } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import { JobQueue } from "nestjs-pg-jobs";
import { JobsAdminModule } from "nestjs-pg-jobs-admin";
import { ADAPTERS, AdminApp, TOKENS } from "../support/admin-app.js";
import { Bench } from "../support/harness.js";

// Wherever it is mounted, a requeue takes what the queue takes, and others' routes keep their bodies.

let bench: Bench;
beforeAll(async () => {
  bench = await Bench.open();
});
afterAll(async () => await bench.close());

const payload = { text: "x".repeat(500_000) };

async function cancelled(jobs: JobQueue): Promise<string> {
  const { id } = await jobs.enqueue("waits", {}, { delay: "1h" });
  await jobs.cancel(id);
  return id;
}

describe.each(ADAPTERS)("on %s", (adapter) => {
  it("below a prefix, a version and a path of several parts", async () => {
    const admin = await AdminApp.open(
      bench,
      adapter,
      { tokens: TOKENS, path: "/ops/jobs-admin" },
      {
        before: (app) =>
          app
            .setGlobalPrefix("api")
            .enableVersioning({ type: VersioningType.URI, defaultVersion: "2" }),
        prefix: "/api/v2/ops/jobs-admin",
      },
    );
    const id = await cancelled(admin.jobs);
    const answer = await admin.post(`jobs/${id}/requeue`, { body: { payload } });
    expect(answer).toMatchObject({ status: 200, body: { state: "queued" } });
    expect(await admin.jobs.get(id)).toMatchObject({ payload });
    const { servers } = (await admin.get("openapi.json")).body as { servers: { url: string }[] };
    const told = new URL(servers[0]!.url, `${admin.url}${admin.prefix}/openapi.json`);
    expect(told.href).toBe(`${admin.url}${admin.prefix}`);
    expect((await admin.get("/")).status).toBe(200);
    expect((await admin.get("/", { as: null })).status).toBe(401);
    await admin.close();
  });

  it("the app's own routes beside it are parsed by the app", async () => {
    @Controller()
    class Own {
      @Post(["admin/notes", "other/admin/jobs/1-1/requeue"])
      note(@Body() body: unknown): { body: unknown } {
        return { body };
      }
    }
    @Module({ controllers: [Own] })
    class OwnModule {}
    const admin = await AdminApp.open(bench, adapter, { tokens: TOKENS, imports: [OwnModule] });
    for (const path of ["admin/notes", "other/admin/jobs/1-1/requeue"]) {
      const answer = await fetch(`${admin.url}/${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"a":1}',
      });
      expect([path, await answer.json()]).toEqual([path, { body: { a: 1 } }]);
    }
    await admin.close();
  });
});

it("on Fastify, that takes no notice of a slash at the end", async () => {
  @Module({ imports: [bench.root(), JobsAdminModule.forRoot({ tokens: TOKENS })] })
  class App {}
  const adapter = new FastifyAdapter({ routerOptions: { ignoreTrailingSlash: true } });
  const app = await NestFactory.create(App, adapter, { logger: false, abortOnError: false });
  await app.listen(0, "127.0.0.1");
  const headers = { authorization: `Bearer ${TOKENS.viewer}` };
  for (const path of ["/admin", "/admin/", "/admin/stats/"])
    expect((await fetch(`${await app.getUrl()}${path}`, { headers })).status).toBe(200);
  await app.close();
});

it("takes what a parser of the app has read before", async () => {
  @Module({ imports: [bench.root(), JobsAdminModule.forRoot({ tokens: TOKENS })] })
  class App {}
  const adapter = new ExpressAdapter();
  adapter.useBodyParser("json", false, { limit: "2mb" });
  const quiet = { logger: false, abortOnError: false } as const;
  const app = await NestFactory.create(App, adapter, quiet);
  await app.listen(0, "127.0.0.1");
  const jobs = app.get(JobQueue);
  const id = await cancelled(jobs);
  const send = async (body: string) =>
    await fetch(`${await app.getUrl()}/admin/jobs/${id}/requeue`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${TOKENS.admin}` },
      body,
    });
  expect((await send('{"paylod":1}')).status).toBe(400);
  expect((await send(JSON.stringify({ payload }))).status).toBe(200);
  expect(await jobs.get(id)).toMatchObject({ payload });
  await app.close();
});
