import {
  type CanActivate,
  type ExecutionContext,
  HttpException,
  Module,
  type Type,
} from "@nestjs/common";
import { MetadataScanner, ModulesContainer } from "@nestjs/core";
import { JobsAdminModule, type JobsAdminOptions } from "nestjs-pg-jobs-admin";
import { OPERATION, type Operation } from "../../libs/jobs-admin/src/operation/operation.js";
import { OPERATIONS } from "../../libs/jobs-admin/src/openapi/operations.js";
import { ADAPTERS, AdminApp, TOKENS, said } from "../support/admin-app.js";
import { Bench } from "../support/harness.js";

// Who comes in, and what he may do: each route with each credential.

let bench: Bench;
beforeAll(async () => {
  bench = await Bench.open();
});
afterAll(async () => await bench.close());

describe("the options", () => {
  const problems = (options: unknown): string => {
    try {
      JobsAdminModule.forRoot(options as JobsAdminOptions);
      return "";
    } catch (error) {
      return (error as Error).message;
    }
  };
  const long = (letter: string) => letter.repeat(16);

  it.each([
    [{}, /guard: expected a guard.*closed by default/],
    [{ development: false }, /closed by default/],
    [{ tokens: {} }, /tokens: expected at least one token, found none/],
    [{ tokens: { admin: [] } }, /tokens.admin: expected a token, found an empty list/],
    [{ tokens: { admin: "short" } }, /tokens.admin: expected at least 16 characters, found 5/],
    [{ tokens: { admin: [long("a"), 7] } }, /tokens.admin\[1\]: expected a text, found number/],
    [{ tokens: { admin: `${long("a")} ` } }, /tokens.admin: expected letters, digits/],
    [
      { tokens: { viewer: long("a"), admin: [long("b"), long("a")] } },
      /tokens.admin\[1\]: expected a token of its own, found that of tokens.viewer/,
    ],
    [{ tokens: { admn: long("a") } }, /tokens.admn: unknown option, did you mean admin\?/],
    [{ tokens: long("a") }, /tokens: expected an object, found a string/],
    [{ guard: {} }, /guard: expected a guard/],
    [{ guard: null }, /guard: expected a guard/],
    [
      { tokens: { admin: long("a") }, development: true },
      /tokens, development: expected one of them/,
    ],
    [{ tokens: { admin: long("a") }, operator: () => null }, /operator: expected beside guard/],
    [{ development: "yes" }, /development: expected true or false/],
    [{ development: true, payloads: "operater" }, /payloads: .*did you mean 'operator'\?/],
    [{ development: true, redact: "payload" }, /redact: expected a list/],
    [{ development: true, redact: ["card.number"] }, /redact\[0\]: expected a path/],
    [{ development: true, redact: ["payload."] }, /redact\[0\]: expected a path/],
    [{ development: true, imports: Module }, /imports: expected a list of modules/],
    [{ development: true, path: 7 }, /path: expected where it is mounted/],
    [{ development: true, redakt: [] }, /redakt: unknown option, did you mean redact\?/],
  ])("%j are refused", (options, complaint) => {
    expect(problems(options)).toMatch(complaint);
  });

  it("are told of all at once, and no token is", () => {
    const message = problems({ tokens: { admin: "sesame", viewer: "sesame!" }, redact: [1] });
    expect(message.split("\n")).toHaveLength(4);
    expect(message).not.toMatch(/sesame/);
  });

  it.each([
    { tokens: { viewer: long("a") } },
    { tokens: { operator: [long("a"), long("b")] } },
    { guard: { canActivate: () => true }, operator: () => null },
    { development: true, redact: ["payload.a.*", "*.b", "**.c", "result"], payloads: "admin" },
  ])("%j are taken", (options) => {
    expect(problems(options)).toBe("");
  });
});

/** Every method of the module's controllers that Nest has made a route. */
function routesOf({ app }: AdminApp): { name: string; operation: Operation | undefined }[] {
  const scanner = new MetadataScanner();
  const modules = [...app.get(ModulesContainer).values()];
  return modules
    .flatMap(({ controllers }) => [...controllers.values()])
    .flatMap(({ metatype }) => {
      const { prototype } = metatype as Type<object>;
      return scanner
        .getAllMethodNames(prototype)
        .map((method) => ({ method, handler: prototype[method as never] as object }))
        .filter(({ handler }) => Reflect.hasMetadata("path", handler))
        .map(({ method, handler }) => ({
          name: `${(metatype as Type<object>).name}.${method}`,
          operation: Reflect.getMetadata(OPERATION, handler) as Operation | undefined,
        }));
    });
}

const pathOf = ({ path }: Operation) => path.replace(":id", "1-1").replace(":name", "nobody");

describe.each(ADAPTERS)("on %s", (adapter) => {
  let admin: AdminApp;
  beforeAll(async () => {
    admin = await AdminApp.open(bench, adapter);
  });
  afterAll(async () => await admin.close());

  it("each route of the module has a role, and none that writes is a GET", () => {
    const routes = routesOf(admin);
    expect(routes).toHaveLength(OPERATIONS.length);
    expect(new Set(routes.map(({ operation }) => operation))).toEqual(new Set(OPERATIONS));
    const without = routes.filter(
      ({ operation }) => !["viewer", "operator", "admin"].includes(operation?.role ?? ""),
    );
    expect(without).toEqual([]);
    for (const { operation } of routes)
      expect([operation!.id, operation!.method === "get"]).toEqual([
        operation!.id,
        operation!.role === "viewer" || operation!.id === "listAudit",
      ]);
  });

  it.each(OPERATIONS.map((one) => [`${one.method} ${one.path}`, one] as const))(
    "%s asks for its role",
    async (_, one) => {
      const { method, role } = one;
      const send = async (call: Parameters<AdminApp["call"]>[2]) =>
        said(await admin.call(method, pathOf(one), call));
      expect(await send({ as: null })).toEqual([401, "UNAUTHORIZED"]);
      const wrong = { authorization: `Bearer ${TOKENS.admin}x` };
      expect(await send({ as: null, headers: wrong })).toEqual([403, "FORBIDDEN"]);
      const roles = ["viewer", "operator", "admin"] as const;
      for (const as of roles) {
        const [status, code] = await send({ as });
        const passes = roles.indexOf(as) >= roles.indexOf(role);
        expect([as, code === "ROLE_TOO_WEAK"]).toEqual([as, !passes]);
        // Whoever passes hears what becomes of the request itself.
        expect([as, passes ? [200, 400, 404].includes(status) : status === 403]).toEqual([
          as,
          true,
        ]);
      }
    },
  );

  it("says which role is missing, and names the scheme to whoever sends nothing", async () => {
    const weak = await admin.post("jobs/1-1/cancel", { as: "viewer" });
    expect(weak.body).toMatchObject({ role: "viewer", needed: "operator" });
    expect(weak.body.detail).toBe(
      "Expected the role operator, found viewer. Use a token of that role.",
    );
    const none = await admin.get("stats", { as: null });
    expect(none.headers.get("www-authenticate")).toBe('Bearer realm="admin"');
  });

  it("is not written to by a GET, whatever it says", async () => {
    const { id } = await admin.jobs.enqueue("waits", {}, { delay: "1h" });
    for (const path of [`jobs/${id}/cancel`, `jobs/${id}/requeue`, "queues/default/pause"])
      expect((await admin.get(path)).status).toBe(404);
    const headers = { "x-http-method-override": "POST" };
    expect((await admin.get(`jobs/${id}?_method=POST`, { headers })).status).toBe(400);
    expect((await admin.jobs.get(id))!.state).toBe("queued");
  });
});

describe("tokens", () => {
  it("are several of a role while they are changed", async () => {
    const tokens = { operator: ["the-old-token-of-it", TOKENS.operator], admin: TOKENS.admin };
    const admin = await AdminApp.open(bench, "express", { tokens });
    await admin.jobs.enqueue("waits", {}, { queue: "named", delay: "1h" });
    const headers = { authorization: "Bearer the-old-token-of-it" };
    const by = async (call: object) => (await admin.post("queues/named/pause", call)).body.paused;
    expect(await by({ as: null, headers })).toMatchObject({ by: "operator" });
    expect(await by({ as: "operator" })).toMatchObject({ by: "operator 2" });
    expect(await by({ as: "admin", body: { by: "the boss" } })).toMatchObject({ by: "admin" });
    await admin.close();
  });
});

describe("a guard of one's own", () => {
  class Cookie implements CanActivate {
    canActivate(context: ExecutionContext): boolean {
      const request = context
        .switchToHttp()
        .getRequest<{ headers: { cookie?: string }; user?: unknown }>();
      request.user = /user=(\w+)/.exec(request.headers.cookie ?? "")?.[1];
      return request.user !== undefined;
    }
  }
  const cookie = (user: string) => ({ cookie: `user=${user}` });

  it.each(ADAPTERS)(
    "lets in viewers only, unless it is told who they are (%s)",
    async (adapter) => {
      const admin = await AdminApp.open(bench, adapter, { guard: Cookie });
      const headers = { ...cookie("ann"), "sec-fetch-site": "same-origin" };
      expect(said(await admin.get("stats", { as: null }))).toEqual([403, "FORBIDDEN"]);
      expect(await admin.get("stats", { as: null, headers })).toMatchObject({ status: 200 });
      const refused = await admin.post("jobs/1-1/cancel", { as: null, headers });
      expect(said(refused)).toEqual([403, "ROLE_TOO_WEAK"]);
      expect(refused.body.detail).toMatch(/give it operator: \(request\) => \(\{ name, role \}\)/);
      await admin.close();
    },
  );

  it.each(ADAPTERS)(
    "answers whom it refuses in its own words with a problem (%s)",
    async (adapter) => {
      class Says implements CanActivate {
        canActivate(): never {
          throw new HttpException({ reason: "no seat", message: "There is no seat left." }, 403);
        }
      }
      const admin = await AdminApp.open(bench, adapter, { guard: Says });
      expect((await admin.get("stats", { as: null })).body).toEqual({
        type: "about:blank",
        title: "Forbidden",
        status: 403,
        code: "FORBIDDEN",
        detail: "There is no seat left.",
      });
      await admin.close();
    },
  );

  it.each(ADAPTERS)("says who they are (%s)", async (adapter) => {
    const people = { ann: "operator", bob: "viewer", eve: "queen" } as const;
    const admin = await AdminApp.open(bench, adapter, {
      guard: new Cookie(),
      operator: async ({ user }) =>
        user === "nobody" ? null : ({ name: user, role: people[user as "ann"] } as never),
    });
    await admin.jobs.enqueue("waits", {}, { queue: "owned", delay: "1h" });
    const pause = async (user: string) =>
      await admin.post("queues/owned/pause", {
        as: null,
        headers: { ...cookie(user), "sec-fetch-site": "same-origin" },
      });
    expect((await pause("ann")).body.paused).toMatchObject({ by: "ann" });
    expect(said(await pause("bob"))).toEqual([403, "ROLE_TOO_WEAK"]);
    expect(said(await pause("nobody"))).toEqual([403, "FORBIDDEN"]);
    expect(said(await pause("eve"))).toEqual([500, "INTERNAL"]);
    await admin.close();
  });
});

describe.each(ADAPTERS)("a page of somebody else (%s)", (adapter) => {
  let admin: AdminApp;
  let host: string;
  beforeAll(async () => {
    const guard = { canActivate: () => true };
    const operator = () => ({ name: "ann", role: "admin" as const });
    admin = await AdminApp.open(bench, adapter, { guard, operator });
    host = new URL(admin.url).host;
  });
  afterAll(async () => await admin.close());

  const cookie = "session=1";
  const refused: Record<string, string>[] = [
    { cookie },
    { cookie, "sec-fetch-site": "cross-site" },
    { cookie, "sec-fetch-site": "same-site" },
    { cookie, origin: "https://evil.example" },
    { cookie, origin: "null" },
    { "sec-fetch-site": "cross-site" },
    { origin: "https://evil.example", authorization: "Basic YTpi" },
  ];
  it.each(refused)("sends nothing in the name of who looks at it: %j", async (headers) => {
    const answer = await admin.post("jobs/1-1/cancel", { as: null, headers });
    expect(said(answer)).toEqual([403, "CROSS_SITE"]);
    expect((await admin.get("stats", { as: null, headers })).status).toBe(200);
  });

  it("is told from this one, and from a program", async () => {
    for (const headers of [
      { cookie, "sec-fetch-site": "same-origin" },
      { cookie, "sec-fetch-site": "none" },
      { cookie, origin: `http://${host}` },
      { cookie, authorization: "Basic YTpi" },
      { cookie, authorization: "Bearer x", "sec-fetch-site": "cross-site" },
      {},
    ] as Record<string, string>[])
      expect(said(await admin.post("jobs/1-1/cancel", { as: null, headers }))).toEqual([
        404,
        "JOB_UNKNOWN",
      ]);
  });
});

describe.each(ADAPTERS)("development (%s)", (adapter) => {
  it("asks nobody, and serves this machine alone", async () => {
    const admin = await AdminApp.open(bench, adapter, { development: true });
    const call = async (headers: Record<string, string> = {}) =>
      said(await admin.post("jobs/1-1/cancel", { as: null, headers }));
    expect(await call()).toEqual([404, "JOB_UNKNOWN"]);
    for (const headers of [
      { "x-forwarded-for": "10.0.0.1" },
      { forwarded: "for=10.0.0.1" },
      { via: "1.1 proxy" },
    ] as Record<string, string>[])
      expect(await call(headers)).toEqual([403, "LOOPBACK_ONLY"]);
    expect(await call({ origin: "https://evil.example" })).toEqual([403, "CROSS_SITE"]);
    await admin.close();
  });
});
