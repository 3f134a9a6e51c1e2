import { type Server, request } from "node:http";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { jest } from "@jest/globals";
import { ConsoleLogger } from "@nestjs/common";
import { ProblemFilter } from "nestjs-pg-jobs-admin";
import { ADAPTERS, AdminApp, TOKENS, said } from "../support/admin-app.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// What nobody should send: told what is wrong with it, at once, and nothing is written.

const LONG = "x".repeat(65);

const QUERIES: [string, string][] = [
  ["jobs?limit=0", "limit: expected an integer 1..200, found 0"],
  ["jobs?limit=201", "limit: expected an integer 1..200, found 201"],
  ["jobs?limit=-1", "limit: expected an integer"],
  ["jobs?limit=1.5", "limit: expected an integer"],
  ["jobs?limit=1e3", "limit: expected an integer"],
  ["jobs?limit=999999999999999999999", "limit: expected an integer"],
  ["jobs?limit=", 'limit: expected an integer 1..200, found ""'],
  ["jobs?limit=1&limit=2", "limit: expected once, found 2 times"],
  ["jobs?limit[]=1", "limit[]: unknown option, did you mean limit?"],
  ["jobs?stat=dead", "stat: unknown option, did you mean state?"],
  ["jobs?state=sleeping", "state: expected 'queued' or"],
  ["jobs?state=", "state: expected 'queued' or"],
  ["jobs?state=dead,ded", "did you mean 'dead'?"],
  [
    `jobs?state=${Array.from({ length: 900 }, (_, n) => n).join()}`,
    "state: expected at most 8 different words, found 900",
  ],
  ["jobs?__proto__=1", "__proto__: unknown option"],
  ["jobs?constructor=1&toString=2", "constructor: unknown option"],
  [`jobs?kind=${LONG}`, "kind: expected 1..64 characters"],
  ["jobs?kind=%00", "kind: expected 1..64 characters"],
  ["jobs?queue=", "queue: expected 1..64 characters"],
  ["jobs?key=a%00b", "key: expected 1..512 characters"],
  [`jobs?key=${"k".repeat(513)}`, "key: expected 1..512 characters"],
  ["jobs?error=", 'error: expected 1..200 characters without NUL, found ""'],
  ["jobs?error=%00", "error: expected 1..200 characters without NUL"],
  [`jobs?error=${"e".repeat(201)}`, "error: expected 1..200 characters"],
  ["jobs?payload=to", "payload: expected names with dots between, a colon, and what stands there"],
  ["jobs?payload=:x", "payload: expected names with dots between"],
  ["jobs?payload=a:%00", "payload: expected names with dots between"],
  [`jobs?payload=a:${"v".repeat(201)}`, "payload: expected names"],
  ["jobs?payload=a:1&payload=b:2", "payload: expected once, found 2 times"],
  ["events?x=1", 'query: expected no parameters here, found "x"'],
  ["jobs?priority=101", "priority: expected an integer -100..100, found 101"],
  ["jobs?createdSince=yesterday", "createdSince: expected a time such as 2026-11-19T22:00:00Z"],
  ["jobs?createdSince=922337", "createdSince: expected a time"],
  ["jobs?createdSince=2026-01-01", "createdSince: expected a time"],
  ["jobs?createdBefore=2026-02-31T00:00:00Z", "createdBefore: expected a time"],
  ["jobs?createdBefore=2026-13-01T00:00:00Z", "createdBefore: expected a time"],
  ["jobs?finishedSince=1969-12-31T00:00:00Z", "finishedSince: expected a valid Date"],
  ["jobs?finishedSince=%2B275760-09-13T00:00:00Z", "finishedSince: expected a time"],
  ["jobs?finishedBefore=0000-01-01T00:00:00Z", "finishedBefore: expected"],
  [`jobs?${"a=1&".repeat(3_000)}`, "query: expected at most 8192 characters, found 12000"],
  [`jobs?${Array.from({ length: 60 }, (_, n) => `q${n}`).join("&")}`, "expected at most 50 names"],
  ["dead-letters?state=dead", "state: unknown option"],
  ["jobs/1-1/logs?limit=1001", "limit: expected an integer 1..1000, found 1001"],
  ["jobs/1-1/logs?attempt=0", "attempt: expected an integer 1..2147483647, found 0"],
  ["stats?days=922337", 'query: expected no parameters here, found "days"'],
  ["workers?x", "query: expected no parameters here"],
];

const PAUSES: [unknown, string][] = [
  [{ until: 922337 }, "body.until: expected a time such as 2026-11-19T22:00:00Z, found 922337"],
  [{ until: "922337" }, 'body.until: expected a time such as 2026-11-19T22:00:00Z, found "922337"'],
  [{ until: "2030-02-30T00:00:00Z" }, "body.until: expected a time"],
  [{ until: null }, "body.until: expected a time"],
  [{ untill: "2030-01-01T00:00:00Z" }, "body.untill: unknown option, did you mean until?"],
  [{ why: "x".repeat(1_001) }, "body.why: expected at most 1000 characters"],
  [
    { why: { toString: 1 } },
    "body.why: expected at most 1000 characters without NUL, found an object",
  ],
  [{ kind: 7 }, "body.kind: expected 1..64 characters without control characters, found 7"],
  [{ key: "" }, "body.key: expected 1..512 characters"],
  [[], "body: expected an object, found an array"],
  ['"text"', 'body: expected an object, found "text"'],
  ["null", "body: expected an object, found null"],
  ['{"__proto__":{"why":"x"}}', "body.__proto__: unknown option"],
  [Object.fromEntries(Array.from({ length: 51 }, (_, n) => [n, n])), "expected at most 50 names"],
];

const STATES: [unknown, string][] = [
  ...[5, {}, true, null, "dead", []].map((state): [unknown, string] => [
    state,
    "body.state: expected a list of some of queued, running",
  ]),
  [[null], "body.state: expected 'queued' or"],
  [[{}], "body.state: expected 'queued' or"],
  [
    Array.from({ length: 6_000 }, (_, n) => `s${n}`),
    "body.state: expected at most 8 different words, found 6000",
  ],
];

/** Each taken once. */
let keys = 0;

const NEST = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

describe.each(ADAPTERS)("on %s", (adapter) => {
  let bench: Bench;
  let admin: AdminApp;
  let id: string;
  beforeAll(async () => {
    bench = await Bench.open();
    admin = await AdminApp.open(bench, adapter);
    id = (await admin.jobs.enqueue("waits", {}, { delay: "1h" })).id;
    await admin.jobs.schedules.upsert("daily", "waits", { cron: "@daily" });
  });
  afterAll(async () => {
    await admin.close();
    await bench.close();
  });

  it.each(QUERIES)("%s is told what is wrong", async (path, complaint) => {
    const answer = await admin.get(path);
    expect(said(answer)).toEqual([400, "QUERY_INVALID"]);
    expect(answer.body.detail).toContain(complaint);
    expect(String(answer.body.detail).length).toBeLessThan(4_000);
  });

  it("several things are told at once", async () => {
    const { body } = await admin.get("jobs?limit=0&kind=&stat=dead");
    expect(body.problems).toHaveLength(3);
  });

  it.each([
    ["jobs?after=garbage", "CURSOR_INVALID"],
    ["jobs?after=ajE%3D", "CURSOR_INVALID"],
    ["jobs/1-1/logs?after=ajE", "CURSOR_INVALID"],
    [
      "jobs?createdSince=2026-01-02T00:00:00Z&createdBefore=2026-01-01T00:00:00Z",
      "OPTIONS_INVALID",
    ],
    [`jobs?state=${Array.from({ length: 99 }, () => "dead").join()}&after=x`, "CURSOR_INVALID"],
  ])("%s is a %s", async (path, code) => {
    expect(said(await admin.get(path))).toEqual([400, code]);
  });

  it.each([
    "x",
    "1",
    "1-x",
    "01-1",
    "1-99999999999999999999",
    "%00",
    "1-1%27",
    "1--1",
    "..%2F..",
    LONG,
  ])("%s is no id", async (odd) => {
    for (const rest of ["", "/history", "/logs"])
      expect(said(await admin.get(`jobs/${odd}${rest}`))).toEqual([400, "JOB_ID_INVALID"]);
    for (const verb of ["cancel", "requeue"])
      expect(said(await admin.post(`jobs/${odd}/${verb}`))).toEqual([400, "JOB_ID_INVALID"]);
    expect(said(await admin.delete(`jobs/${odd}`))).toEqual([400, "JOB_ID_INVALID"]);
  });

  it.each(["zzz", "0", "01", "1-1", "%00", "-1", "9".repeat(19), LONG])(
    "%s is no operation on many jobs",
    async (odd) => {
      for (const method of ["get", "delete"])
        expect(said(await admin.call(method, `bulk/${odd}`))).toEqual([400, "PATH_INVALID"]);
    },
  );

  it.each(["%00", LONG, "%20%0A"])("%s is no name", async (odd) => {
    for (const [method, path] of [
      ["get", `queues/${odd}`],
      ["post", `queues/${odd}/pause`],
      ["delete", `queues/${odd}/pause`],
      ["post", `schedules/${odd}/run`],
      ["post", `schedules/${odd}/pause`],
      ["delete", `schedules/${odd}/pause`],
    ] as const)
      expect(said(await admin.call(method, path))).toEqual([400, "PATH_INVALID"]);
  });

  it.each(["%FF", "%", "%E0%A4%A"])("%s is no text", async (odd) => {
    for (const path of [`jobs/${odd}`, `queues/${odd}`]) {
      const { status } = await fetch(`${admin.url}/admin/${path}`);
      expect(status).toBe(400);
    }
  });

  it.each(PAUSES)("%j does not pause", async (body, complaint) => {
    const answer = await admin.post("queues/default/pause", { as: "operator", body });
    expect(said(answer)).toEqual([400, "BODY_INVALID"]);
    expect(answer.body.detail).toContain(complaint);
  });

  it.each([
    [{ until: "2001-01-01T00:00:00Z" }, "until: expected a time to come"],
    [{ keyPath: "a" }, "keyPath: expected with key only"],
  ])("%j does not pause either", async (body, complaint) => {
    const answer = await admin.post("queues/default/pause", { as: "operator", body });
    expect(said(answer)).toEqual([400, "OPTIONS_INVALID"]);
    expect(answer.body.detail).toContain(complaint);
  });

  it.each(STATES)("%j is no list of states", async (state, complaint) => {
    for (const [path, more] of [
      ["bulk/preview", {}],
      ["bulk", { expected: 1 }],
    ] as const) {
      const body = { action: "cancel", state, ...more };
      const answer = await admin.post(path, { as: "operator", body });
      expect(said(answer)).toEqual([400, "BODY_INVALID"]);
      expect(answer.body.detail).toContain(complaint);
      expect(JSON.stringify(answer.body).length).toBeLessThan(4_000);
    }
  });

  it.each([
    ['{"max":1,"\\u0000":1}', "limit.\uFFFD: unknown option"],
    ['{"max":1,"\\ud800":1}', "limit.\uFFFD: unknown option"],
    [`{"${"x".repeat(63)}\\ud83d\\ude00":1}`, "unknown option"],
    [NEST(900), "limit[0]: expected an object, found an array"],
    [`[${Array.from({ length: 101 }, () => 5).join()}]`, "limit: expected at most 100, found 101"],
    [`{${Array.from({ length: 4_000 }, (_, n) => `"m${n}":1`).join()}}`, "; and 3951 more."],
  ])("%# of odd limits is none", async (limit, complaint) => {
    const key: Record<string, string> = { "idempotency-key": String(keys++) };
    for (const headers of [{}, key]) {
      const body = `{"limit":${limit},"rate":null}`;
      const answer = await admin.call("patch", "queues/default", { body, headers });
      expect(said(answer)).toEqual([400, "OPTIONS_INVALID"]);
      expect(answer.body.detail).toContain(complaint);
      expect(JSON.stringify(answer.body).length).toBeLessThan(10_000);
    }
  });

  it("bounds for more keys than a claim could look at are refused", async () => {
    const limit = Array.from({ length: 101 }, (_, n) => ({ max: 1, key: `k${n}` }));
    const rate = limit.map((one) => ({ ...one, per: "1m" }));
    const answer = await admin.call("patch", "queues/default", { body: { limit, rate } });
    expect(said(answer)).toEqual([400, "OPTIONS_INVALID"]);
    expect(answer.body.problems).toEqual([
      "limit: expected at most 100, found 101",
      "rate: expected at most 100, found 101",
    ]);
  });

  it("what is deeper than anything that is read is refused", async () => {
    const headers = { "idempotency-key": "deep" };
    for (const [method, path, body] of [
      ["patch", "queues/default", `{"limit":${NEST(5_000)},"rate":null}`],
      ["patch", "queues/default", `{"limit":${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}}`],
      ["post", `jobs/${id}/requeue`, `{"payload":${NEST(100_000)}}`],
    ] as const) {
      const answer = await admin.call(method, path, { body, headers });
      expect(said(answer)).toEqual([400, "BODY_INVALID"]);
      expect(answer.body.detail).toBe(
        "body: expected at most 1000 levels of lists and objects, found more.",
      );
    }
  });

  it("a page of the audit that is none is told once", async () => {
    const answer = await admin.get("audit?after=-1");
    expect(said(answer)).toEqual([400, "OPTIONS_INVALID"]);
    expect(answer.body.detail).toContain('found "-1"');
  });

  it("bodies where none is read are refused", async () => {
    const body = { force: true };
    for (const [method, path] of [
      ["post", `jobs/${id}/cancel`],
      ["post", "schedules/daily/run"],
      ["delete", "schedules/daily/pause"],
      ["delete", "queues/default/pause"],
    ] as const)
      expect(said(await admin.call(method, path, { body }))).toEqual([400, "BODY_INVALID"]);
    expect((await admin.jobs.get(id))!.state).toBe("queued");
  });

  it("bodies that are no JSON, or too long, are refused", async () => {
    const send = async (body: string, headers: Record<string, string> = {}) =>
      said(await admin.post("queues/default/pause", { as: "operator", body, headers }));
    expect(await send("{")).toEqual([400, "BAD_REQUEST"]);
    expect(await send("[".repeat(60_000))).toEqual([400, "BAD_REQUEST"]);
    expect(await send(`{"why":${"[".repeat(30_000)}${"]".repeat(30_000)}}`)).toEqual([
      400,
      "BODY_INVALID",
    ]);
    expect(await send(JSON.stringify({ why: "x".repeat(70_000) }))).toEqual([
      413,
      "PAYLOAD_TOO_LARGE",
    ]);
    const cut = await fetch(`${admin.url}/admin/queues/default/pause`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${TOKENS.operator}`,
        "content-type": "application/json",
      },
      body: Buffer.from([...Buffer.from('{"why":"'), 0xc3, ...Buffer.from('"}')]),
    });
    expect([cut.status, await cut.json()]).toMatchObject([400, { code: "BAD_REQUEST" }]);
    for (const type of ["text/plain", "application/xml", "application/json; charset=utf-16", "x"])
      expect(await send("{}", { "content-type": type })).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
    const zipped = { "content-encoding": "gzip" };
    expect(await send(gzipSync("{}").toString("latin1"), zipped)).toEqual([
      415,
      "UNSUPPORTED_MEDIA_TYPE",
    ]);
  });

  it("whatever a path is written like, who has no credential is told that first", async () => {
    const { port } = new URL(admin.url);
    const send = async (method: string, path: string, headers: Record<string, string>) =>
      await new Promise<[number, unknown]>((resolve, reject) => {
        const sent = request({ port, host: "127.0.0.1", method, path, headers }, (response) => {
          void text(response).then((found) => {
            const { code } = JSON.parse(found === "" ? "{}" : found) as { code?: string };
            resolve([response.statusCode!, code]);
          }, reject);
        });
        sent.on("error", reject).end("{");
      });
    const json = { "content-type": "application/json", "content-length": "1" };
    const known = { ...json, authorization: `Bearer ${TOKENS.operator}` };
    const pause = [
      "/admin/queues/default/pause",
      `${admin.url}/admin/queues/default/pause`,
      // Express knows no such route.
      ...(adapter === "fastify"
        ? ["/admin/%71ueues/default/pause", "/admin/queues/default/pause#x"]
        : []),
    ];
    for (const path of pause) {
      expect(await send("POST", path, json)).toEqual([401, "UNAUTHORIZED"]);
      expect(await send("POST", path, known)).toEqual([400, "BAD_REQUEST"]);
      for (const odd of [
        { "content-encoding": "gzip" },
        { "content-type": "application/json; charset=utf-16" },
      ] as Record<string, string>[])
        expect(await send("POST", path, { ...known, ...odd })).toEqual([
          415,
          "UNSUPPORTED_MEDIA_TYPE",
        ]);
    }
    for (const path of ["/admin/stats", "/admin", "/admin/jobs/1-1?x"]) {
      expect(await send("GET", path, json)).toEqual([401, "UNAUTHORIZED"]);
      expect((await send("HEAD", path, json))[0]).toBe(401);
      expect((await send("GET", path, known))[0]).toBe(400);
    }
  });

  it("who cuts his body off is no error of ours", async () => {
    const errors: unknown[] = [];
    const answered = jest.spyOn(ProblemFilter.prototype, "catch");
    const own = await AdminApp.open(bench, adapter);
    class Lines extends ConsoleLogger {
      override log(): void {}
      override warn(): void {}
      override error(line: unknown): void {
        errors.push(line);
      }
    }
    own.app.useLogger(new Lines());
    const { port } = new URL(own.url);
    const headers = {
      authorization: `Bearer ${TOKENS.operator}`,
      "content-type": "application/json",
      "content-length": "1000",
    };
    const path = "/admin/queues/default/pause";
    const sent = request({ port, host: "127.0.0.1", method: "POST", path, headers });
    sent.on("error", () => {}).write('{"why":');
    await until(
      async () => {
        const open = await new Promise<number>((resolve) =>
          (own.app.getHttpServer() as Server).getConnections((_, count) => resolve(count)),
        );
        return open > 0;
      },
      { what: "it has come" },
    );
    sent.destroy();
    await until(() => answered.mock.calls.length > 0, { what: "it was refused" });
    const [error] = answered.mock.calls[0]!;
    expect(error).toMatchObject({ code: "BAD_REQUEST" });
    expect(errors).toEqual([]);
    own.app.useLogger(false);
    await own.close();
    jest.restoreAllMocks();
  });

  it("edits that no handler could be given are refused", async () => {
    for (const [payload, code] of [
      ["\u0000", "PAYLOAD_NOT_JSON"],
      ["\ud800", "PAYLOAD_NOT_JSON"],
      ["x".repeat(1_048_577), "PAYLOAD_TOO_LARGE"],
    ] as const)
      expect(said(await admin.post(`jobs/${id}/requeue`, { body: { payload } }))[1]).toBe(code);
    const deep = `{"payload":${"[".repeat(500)}${"]".repeat(500)}}`;
    expect(said(await admin.post(`jobs/${id}/requeue`, { body: deep }))).toEqual([
      400,
      "PAYLOAD_NOT_JSON",
    ]);
  });

  it("what is wrong though each member is right is refused, and what is not his to ask", async () => {
    const reversed = {
      createdSince: "2026-01-02T00:00:00Z",
      createdBefore: "2026-01-01T00:00:00Z",
    };
    const junk = { limit: { max: 1, note: "x".repeat(60_000) }, rate: null };
    const keys = Array.from({ length: 2_000 }, () => ({ max: 1, key: "a..b" }));
    const calls: [string, string, object | undefined, [number, string]][] = [
      ["post", "jobs/x/cancel", undefined, [400, "JOB_ID_INVALID"]],
      ["post", "queues/%00/pause", {}, [400, "PATH_INVALID"]],
      ["post", "queues/default/pause", { keyPath: "a" }, [400, "OPTIONS_INVALID"]],
      [
        "post",
        "schedules/daily/pause",
        { until: "2001-01-01T00:00:00Z" },
        [400, "OPTIONS_INVALID"],
      ],
      ["delete", "queues/default/pause?keyPath=a", undefined, [400, "OPTIONS_INVALID"]],
      ["patch", "queues/default", junk, [400, "OPTIONS_INVALID"]],
      ["patch", "queues/default", { limit: keys, rate: null }, [400, "OPTIONS_INVALID"]],
      ["post", "bulk", { action: "cancel", expected: 1, ...reversed }, [400, "OPTIONS_INVALID"]],
      ["post", "bulk/preview", { action: "cancel", ...reversed }, [400, "OPTIONS_INVALID"]],
      [
        "post",
        "bulk",
        { action: "cancel", expected: 1, state: ["dead"] },
        [400, "OPTIONS_INVALID"],
      ],
      [
        "post",
        "bulk",
        { action: "cancel", expected: 1, payload: "a..b:1" },
        [400, "OPTIONS_INVALID"],
      ],
      ["delete", "bulk/zzz", undefined, [400, "PATH_INVALID"]],
      ["post", "process", { queue: "default", seconds: 61 }, [400, "BODY_INVALID"]],
      ["post", `jobs/${id}/requeue`, { payload: { to: "a" } }, [403, "ROLE_TOO_WEAK"]],
    ];
    for (const [index, [method, path, body, expected]] of calls.entries()) {
      const headers = { "idempotency-key": `hostile-${index}` };
      const answer = await admin.call(method, path, { as: "operator", body, headers });
      expect([method, path, said(answer)]).toEqual([method, path, expected]);
    }
    expect(
      (await admin.post(`jobs/${id}/requeue`, { as: "operator", body: { payload: 1 } })).body,
    ).toMatchObject({ role: "operator", needed: "admin" });
  });

  it("what was refused so far has changed nothing, and stands nowhere", async () => {
    const [row] = await bench.sql<Record<string, number>>(
      `select (select count(*)::int from jobs.audit) as audit, (select count(*)::int from jobs.request) as requests,
         (select count(*)::int from jobs.bulk) as bulk, (select count(*)::int from jobs.pause) as pauses, (select count(*)::int from jobs.limit_rule) as rules,
         (select count(*)::int from jobs.job) as jobs, (select count(*)::int from jobs.done) as done,
         (select count(*)::int from jobs.schedule where paused_at is not null) as paused`,
    );
    expect(row).toEqual({
      audit: 0,
      requests: 0,
      bulk: 0,
      pauses: 0,
      rules: 0,
      jobs: 1,
      done: 0,
      paused: 0,
    });
  });

  it("what is well-formed, and refused for what is there, stands in the audit in short", async () => {
    const headers = { "idempotency-key": "by-its-state" };
    const keyed = await admin.post("queues/default/pause", { body: { key: "t1" } });
    expect(said(keyed)).toEqual([400, "OPTIONS_INVALID"]);
    expect(keyed.body.detail).toContain("expected a limit or rate with a key");
    const limit = Array.from({ length: 100 }, (_, n) => ({
      max: 1,
      key: `k${n}.${"k".repeat(99)}`,
    }));
    const body = { limit, rate: null };
    expect(said(await admin.call("patch", "queues/dfault", { body, headers }))).toEqual([
      404,
      "QUEUE_UNKNOWN",
    ]);
    expect(said(await admin.delete("bulk/999"))).toEqual([404, "BULK_UNKNOWN"]);
    const rows = await bench.sql(
      "select outcome, octet_length(details::text) < 8192 as short from jobs.audit order by id",
    );
    expect(rows).toEqual(
      ["OPTIONS_INVALID", "QUEUE_UNKNOWN", "BULK_UNKNOWN"].map((outcome) => ({
        outcome,
        short: true,
      })),
    );
  });

  it("what is no route is none, and other methods are none", async () => {
    for (const path of ["nothing", "jobs/1-1/2", "queues/a/b/c", "openapi.yaml"])
      expect((await admin.get(path)).status).toBe(404);
    for (const method of ["put", "patch", "post"])
      expect((await admin.call(method, "jobs")).status).toBe(404);
  });
});

it("no GET writes: each answers from a database that takes no writes", async () => {
  const bench = await Bench.open();
  const writer = await bench.producer();
  const { id } = await writer.enqueue("waits", {}, { delay: "1h" });
  await writer.schedules.upsert("daily", "waits", { cron: "@daily" });
  const address = new URL(bench.url);
  address.searchParams.set("options", "-cdefault_transaction_read_only=on");
  const url = address.href;
  const jobs = { connection: { url } };
  const admin = await AdminApp.open(bench, "express", undefined, { jobs });
  for (const path of [
    "",
    "stats",
    "events",
    "jobs?error=x&payload=a:b",
    "jobs",
    "jobs?key=k&state=queued",
    `jobs/${id}`,
    `jobs/${id}/history`,
    `jobs/${id}/logs`,
    "dead-letters",
    "queues",
    "queues/default",
    "schedules",
    "workers",
    "openapi.json",
  ])
    expect([path, (await admin.get(path)).status]).toEqual([path, 200]);
  expect(said(await admin.post("queues/default/pause"))).toEqual([503, "DATABASE_UNAVAILABLE"]);
  await admin.close();
  await bench.close();
});
