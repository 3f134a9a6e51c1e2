import { Injectable, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { JobHandler, JobQueue, bury } from "nestjs-pg-jobs";
import { JobsAdminModule } from "nestjs-pg-jobs-admin";
import { Bench } from "../support/harness.js";
import {
  ADMIN_TOKEN,
  type Answer,
  type HttpApp,
  SampleApps,
  asAdmin,
  asViewer,
} from "../support/sample-apps.js";
import { until } from "../support/until.js";

@Injectable()
class Handlers {
  @JobHandler("dies")
  dies({ ok }: { ok?: boolean }) {
    return ok ? "fine" : bury("no use");
  }
}

let bench: Bench;
let apps: SampleApps;
let jobs: JobQueue;

beforeAll(async () => {
  bench = await Bench.open();
  apps = new SampleApps(bench.schema);
  jobs = (await bench.worker([Handlers])).get(JobQueue);
});
afterAll(async () => await bench.close());

describe.each(["express", "fastify"] as const)("on %s", (adapter) => {
  let admin: HttpApp;
  const odd = `odd-${adapter}`;
  beforeAll(async () => {
    admin = await apps.admin(adapter);
  });
  afterAll(async () => await apps.close());

  async function dead(options: { key?: string } = {}): Promise<string> {
    const { id } = await jobs.enqueue("dies", {}, options);
    await until(async () => (await bench.state(id)) === "dead", { what: "it is dead" });
    return id;
  }

  function expectProblem({ status, headers, body }: Answer, code: string, expected: number) {
    expect({ status, body }).toMatchObject({ status: expected, body: { status: expected, code } });
    expect(headers.get("content-type")).toMatch(/^application\/problem\+json/);
    expect(body).toMatchObject({
      type: "about:blank",
      title: expect.any(String),
      detail: expect.any(String),
    });
  }

  describe("the token", () => {
    const ROUTES: ["get" | "post", string][] = [
      ["get", "/admin"],
      ["get", "/admin/stats"],
      ["get", "/admin/jobs/1-1"],
      ["get", "/admin/jobs/nonsense"],
      ["get", "/admin/jobs/1-1/history"],
      ["post", "/admin/jobs/1-1/requeue"],
    ];
    const send = async ([method, path]: (typeof ROUTES)[number], authorization?: string) => {
      const headers: Record<string, string> = authorization ? { authorization } : {};
      return method === "get"
        ? await admin.get(path, headers)
        : await admin.post(path, undefined, headers);
    };

    it.each(ROUTES)("is asked for: %s %s", async (...route) => {
      for (const header of [undefined, "Bearer", `Basic ${ADMIN_TOKEN}`, ADMIN_TOKEN]) {
        const answer = await send(route, header);
        expectProblem(answer, "UNAUTHORIZED", 401);
        expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="admin"');
      }
      for (const token of ["wrong", `${ADMIN_TOKEN}x`, ADMIN_TOKEN.toUpperCase()])
        expectProblem(await send(route, `Bearer ${token}`), "FORBIDDEN", 403);
    });

    it("opens with any spelling of the scheme", async () => {
      const authorization = `bearer  ${ADMIN_TOKEN}`;
      expect(await send(["get", "/admin/stats"], authorization)).toMatchObject({ status: 200 });
      expect(await send(["get", "/admin"], authorization)).toMatchObject({ status: 200 });
    });

    it("is asked for before anybody looks at a body", async () => {
      const path = "/admin/jobs/1-1/requeue";
      const bodies: [string, string][] = [
        ["{", "application/json"],
        ["nonsense", "text/plain"],
        [`{"payload":"${"x".repeat(200_000)}"}`, "application/json"],
        ["{}", "application/json; charset=none"],
      ];
      for (const [body, type] of bodies) {
        const headers = { "content-type": type };
        expectProblem(await admin.post(path, body, headers), "UNAUTHORIZED", 401);
        const authorization = "Bearer wrong";
        expectProblem(
          await admin.post(path, body, { ...headers, authorization }),
          "FORBIDDEN",
          403,
        );
      }
    });

    it("of a viewer looks, and sends nothing again", async () => {
      const id = await dead();
      const seen = await admin.get(`/admin/jobs/${id}`, asViewer);
      expect(seen).toMatchObject({ status: 200, body: { id, withheld: { role: "operator" } } });
      const answer = await admin.post(`/admin/jobs/${id}/requeue`, undefined, asViewer);
      expectProblem(answer, "ROLE_TOO_WEAK", 403);
      expect(await bench.state(id)).toBe("dead");
    });

    it("is not asked for by health, which tells little", async () => {
      const { status, body } = await admin.get("/health");
      expect(status).toBe(200);
      expect(body).toMatchObject({ status: "ok", details: { jobs: { status: "up" } } });
      expect(JSON.stringify(body)).not.toMatch(/backlog|queue/);
    });

    it("says that JobsModule.forRoot is missing beside it", async () => {
      const guard = { canActivate: () => true };
      @Module({ imports: [JobsAdminModule.forRoot({ guard })] })
      class Alone {}
      const booting = NestFactory.create(Alone, { logger: false, abortOnError: false });
      await expect(booting).rejects.toThrow(
        /JobsModule.forRoot: expected in the same app, found none/,
      );
    });

    it("is asked for, or the module does not start", () => {
      expect(() => JobsAdminModule.forRoot({} as never)).toThrow(/guard: expected a guard/);
      expect(() => JobsAdminModule.forRoot(undefined as never)).toThrow(/closed by default/);
      expect(() => JobsAdminModule.forRoot({ guard: Module as never })).toThrow(/expected a guard/);
      expect(() =>
        JobsAdminModule.forRoot({ gaurd: { canActivate: () => true } } as never),
      ).toThrow(/gaurd: unknown option, did you mean guard\?\n.*expected a guard/);
    });
  });

  describe("GET /admin/jobs/:id", () => {
    it("shows a job with its errors", async () => {
      const id = await dead();
      const { status, headers, body } = await admin.get(`/admin/jobs/${id}`, asAdmin);
      expect(status).toBe(200);
      expect(headers.get("cache-control")).toBe("no-store");
      expect(body).toMatchObject({
        id,
        kind: "dies",
        state: "dead",
        attempt: 1,
        payload: {},
        errors: [{ attempt: 1, error: { message: "no use" } }],
      });
    });

    it("says what is wrong with an id", async () => {
      expectProblem(await admin.get("/admin/jobs/1-999999999999", asAdmin), "JOB_UNKNOWN", 404);
      expectProblem(await admin.get("/admin/jobs/77-1", asAdmin), "JOB_UNKNOWN", 404);
      for (const id of ["x", "1", "1-x", "01-1", "1-99999999999999999999", "%00", "1-1%27"])
        expectProblem(await admin.get(`/admin/jobs/${id}`, asAdmin), "JOB_ID_INVALID", 400);
    });

    it("answers problems for other paths and bodies too", async () => {
      expectProblem(await admin.get("/admin/nothing", asAdmin), "NOT_FOUND", 404);
      expectProblem(await admin.post("/admin/jobs/1-1/requeue", "{", asAdmin), "BAD_REQUEST", 400);
      // By what the queue takes, and by what is read of a body at all.
      for (const length of [1_048_575, 5_000_000]) {
        const large = { payload: "x".repeat(length) };
        const answer = await admin.post("/admin/jobs/1-1/requeue", large, asAdmin);
        expectProblem(answer, "PAYLOAD_TOO_LARGE", 413);
        expect(answer.body.detail).toMatch(/1048576.*payloadLimit/);
      }
    });
  });

  describe("POST /admin/jobs/:id/requeue", () => {
    const requeue = async (id: string, body?: unknown) =>
      await admin.post(`/admin/jobs/${id}/requeue`, body, asAdmin);

    it("sends a dead letter again, with another payload when told so", async () => {
      const id = await dead();
      const answer = await requeue(id, { payload: { ok: true } });
      expect(answer).toMatchObject({ status: 200, body: { id, state: "queued" } });
      await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
      expect(await jobs.get(id)).toMatchObject({
        payload: { ok: true },
        result: "fine",
        attempt: 2,
      });
    });

    it("takes every payload that the queue takes", async () => {
      const id = await dead();
      const payload = { ok: true, text: "x".repeat(1_048_500) };
      expect((await requeue(id, JSON.stringify({ payload }, null, 2))).status).toBe(200);
      await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
      expect(await jobs.get(id)).toMatchObject({ payload });
    });

    it("says 409 with the state of what is not dead", async () => {
      const { id } = await jobs.enqueue("dies", { ok: true }, { delay: "1h" });
      const answer = await requeue(id);
      expectProblem(answer, "JOB_NOT_REQUEUEABLE", 409);
      expect(answer.body.state).toBe("queued");
    });

    it("says 409 when another job holds the key", async () => {
      const id = await dead({ key: `k-${adapter}` });
      await jobs.enqueue("dies", { ok: true }, { key: `k-${adapter}`, delay: "1h" });
      const answer = await requeue(id);
      expectProblem(answer, "KEY_TAKEN", 409);
      expect(answer.body).toMatchObject({ state: "dead", key: `k-${adapter}` });
      expect(await bench.state(id)).toBe("dead");
    });

    it("says 404 and 400", async () => {
      expectProblem(await requeue("1-999999999999"), "JOB_UNKNOWN", 404);
      expectProblem(await requeue("x"), "JOB_ID_INVALID", 400);
      const id = await dead();
      for (const body of [[], { paylod: {} }, { payload: {}, force: true }])
        expectProblem(await requeue(id, body), "BODY_INVALID", 400);
      expectProblem(await requeue(id, '{"payload":"\\u0000"}'), "PAYLOAD_NOT_JSON", 400);
      expect(await bench.state(id)).toBe("dead");
    });

    it("says 415 to a body that is not JSON, and sends nothing again", async () => {
      const id = await dead();
      const bodies: [string, string][] = [
        ["payload=1", "application/x-www-form-urlencoded"],
        ['{"payload":1}', "text/plain;charset=UTF-8"],
        ['{"payload":1}', "application/xml"],
        ["{}", "application/json; charset=none"],
      ];
      for (const [body, type] of bodies) {
        const answer = await admin.post(`/admin/jobs/${id}/requeue`, body, {
          ...asAdmin,
          "content-type": type,
        });
        expectProblem(answer, "UNSUPPORTED_MEDIA_TYPE", 415);
      }
      expect(await bench.state(id)).toBe("dead");
      const none = await admin.post(`/admin/jobs/${id}/requeue`, "", {
        ...asAdmin,
        "content-type": "text/plain",
      });
      expect(none).toMatchObject({ status: 200, body: { id, state: "queued" } });
    });

    it("lets one of two people", async () => {
      const id = await dead();
      const body = { payload: { ok: true } };
      const answers = await Promise.all([requeue(id, body), requeue(id, body), requeue(id, body)]);
      const statuses = answers.map(({ status }) => status);
      expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 409, 409]);
    });
  });

  describe("GET /admin/stats", () => {
    it("counts by queue, kind and state, and tells how queues are", async () => {
      await dead();
      await jobs.enqueue("nobody.knows", {}, { queue: odd });
      await until(
        async () => {
          const { body } = await admin.get("/admin/stats", asAdmin);
          const { n } = (
            await bench.sql<{ n: number }>(
              "select count(*)::int as n from jobs.job_status where kind = 'dies' and state = 'dead'",
            )
          )[0]!;
          const rate = body.ratesSince === null ? null : expect.any(Number);
          expect(body).toEqual({
            readAt: expect.stringMatching(/^20.*Z$/),
            ratesSince: body.ratesSince === null ? null : expect.stringMatching(/^20.*Z$/),
            counts: expect.arrayContaining([
              expect.objectContaining({ queue: "default", kind: "dies", dead: n }),
              {
                queue: odd,
                kind: "nobody.knows",
                unfinished: 1,
                succeeded: 0,
                skipped: 0,
                cancelled: 0,
                dead: 0,
                archived: 0,
                pruned: 0,
                deleted: 0,
              },
            ]),
            queues: expect.arrayContaining([
              expect.objectContaining({ queue: "default", deadLetters: n, backlog: 0 }),
              {
                queue: odd,
                backlog: 1,
                lagMs: expect.any(Number),
                oldestJob: expect.stringMatching(/^\d+-\d+$/),
                deadLetters: 0,
                expiredLeases: 0,
                enqueuedPerSecond: rate,
                endedPerSecond: rate,
              },
            ]),
            unknownKinds: expect.arrayContaining([{ queue: odd, kind: "nobody.knows" }]),
          });
          return true;
        },
        { what: "the stats are right" },
      );
    });

    it("says how many jobs come and end a second, from the second look on", async () => {
      const queue = `rates-${adapter}`;
      const waits = await jobs.enqueue("waits", {}, { queue, delay: "1h" });
      const rates = async () => {
        const { body } = await admin.get("/admin/stats", asAdmin);
        const { ratesSince, queues } = body as unknown as {
          ratesSince: string | null;
          queues: { queue: string; enqueuedPerSecond: number | null }[];
        };
        return [ratesSince, queues.find((one) => one.queue === queue)] as const;
      };
      await rates();
      await jobs.enqueue("waits", {}, { queue, delay: "1h" });
      await jobs.cancel(waits.id);
      const [since, found] = await until(
        async () => {
          const [from, one] = await rates();
          return from !== null && Number(one?.enqueuedPerSecond) > 0 && ([from, one] as const);
        },
        { what: "there are rates" },
      );
      expect(Date.parse(since)).toBeLessThan(Date.now());
      expect(found).toMatchObject({ endedPerSecond: expect.any(Number) });
    });
  });
});
