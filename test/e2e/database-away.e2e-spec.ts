import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps, asAdmin } from "../support/sample-apps.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

describe("the apps while the database is away", () => {
  let bench: Bench;
  let proxy: TcpProxy;
  let apps: SampleApps;
  let api: HttpApp;
  let admin: HttpApp;
  const body = { to: "ada@example.com", text: "Tea" };

  beforeAll(async () => {
    bench = await Bench.open();
    proxy = await TcpProxy.start(bench.url);
    apps = new SampleApps(bench.schema, proxy.url(bench.url));
    api = await apps.api();
    admin = await apps.admin();
    await api.post("/reminders", body); // its connections are open
  });
  beforeEach(() => proxy.setMode("reset"));
  afterEach(() => proxy.setMode("pass"));
  afterAll(async () => {
    await apps.close();
    await bench.close();
    await proxy.close();
  });

  it.each(["/reminders", "/thumbnails"])(
    "POST %s answers 503, and 201 or 202 later",
    async (path) => {
      const sent = path === "/reminders" ? body : { imageUrl: "https://example.com/1.jpg" };
      const { status, headers, body: problem } = await api.post(path, sent);
      expect(status).toBe(503);
      expect(headers.get("content-type")).toMatch(/^application\/problem\+json/);
      expect(headers.get("retry-after")).toBe("5");
      expect(problem).toMatchObject({ status: 503, code: "DATABASE_UNAVAILABLE" });
      proxy.setMode("pass");
      await until(async () => (await api.post(path, sent)).status < 300, {
        what: "it works again",
      });
    },
  );

  it("the admin API answers 503 with a problem", async () => {
    for (const path of ["/admin/stats", "/admin/jobs/1-1"]) {
      expect(await admin.get(path, asAdmin)).toMatchObject({
        status: 503,
        body: { status: 503, code: "DATABASE_UNAVAILABLE" },
      });
    }
    expect(await admin.post("/admin/jobs/1-1/requeue", undefined, asAdmin)).toMatchObject({
      status: 503,
      body: { code: "DATABASE_UNAVAILABLE" },
    });
    proxy.setMode("pass");
    await until(async () => (await admin.get("/admin/stats", asAdmin)).status === 200, {
      what: "it works again",
    });
  });

  it("health says so", async () => {
    const down = async (app: HttpApp) => (await app.get("/health")).status === 503;
    // a sample is good for 10 s
    await until(async () => await down(api), { timeout: 30_000, what: "the API is down" });
    await until(async () => await down(admin), { timeout: 30_000, what: "admin is down" });
    expect((await api.get("/health")).body).toMatchObject({
      status: "error",
      error: { jobs: { status: "down" } },
    });
    // no reason to start them anew
    for (const app of [api, admin])
      expect(await app.get("/health/live")).toMatchObject({ status: 200, body: { status: "ok" } });
    proxy.setMode("pass");
    await until(async () => (await api.get("/health")).status === 200, { what: "it is up again" });
  }, 120_000);
});
