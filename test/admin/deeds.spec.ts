import { jest } from "@jest/globals";
import { EnqueueOutcomeUnknownError, JobAudit, JobRequests, defineJob } from "nestjs-pg-jobs";
import { OPERATIONS } from "../../libs/jobs-admin/src/openapi/operations.js";
import { ADAPTERS, AdminApp, TOKENS, said } from "../support/admin-app.js";
import { handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// What changes something: written down with who and why, done once however often it is sent, and done to many.

describe.each(ADAPTERS)("on %s", (adapter) => {
  let bench: Bench;
  let admin: AdminApp;
  beforeEach(async () => {
    bench = await Bench.open();
    admin = await AdminApp.open(bench, adapter);
  });
  afterEach(async () => {
    await admin.close();
    await bench.close();
  });

  const waiting = async (queue = "default", options = {}) =>
    (await admin.jobs.enqueue("waits", { secret: "s" }, { delay: "1h", queue, ...options })).id;
  const audit = async (query = "") => (await admin.get(`audit${query}`)).body.items as object[];

  describe("the audit", () => {
    it("has each deed with who, what, why and how it ended; and nothing that only looks", async () => {
      const id = await waiting();
      await admin.get("stats");
      await admin.get(`jobs/${id}`);
      await admin.post("bulk/preview", { body: { action: "cancel" } });
      await admin.post(`jobs/${id}/cancel`, { as: "operator", body: { why: "not needed" } });
      await admin.post(`jobs/${id}/cancel`, { as: "operator" });
      await admin.post(`jobs/${id}/requeue`, { body: { payload: { secret: "t" }, why: "again" } });
      await admin.post("queues/default/pause", { body: { why: "a flood", kind: "waits" } });
      await admin.delete(`jobs/${id}?why=gone`);
      await admin.delete(`jobs/${id}`);
      const deed = (operator: string, action: string, target: string, over: object) => ({
        id: expect.any(String),
        at: expect.any(String),
        endedAt: expect.any(String),
        operator,
        role: operator,
        action,
        target,
        why: null,
        details: {},
        outcome: "done",
        ...over,
      });
      expect(await audit()).toEqual([
        deed("admin", "deleteJob", id, { outcome: "JOB_UNKNOWN" }),
        deed("admin", "deleteJob", id, { why: "gone" }),
        deed("admin", "pauseQueue", "default", { why: "a flood", details: { kind: "waits" } }),
        deed("admin", "requeueJob", id, { why: "again", details: { edited: true } }),
        deed("operator", "cancelJob", id, {}),
        deed("operator", "cancelJob", id, { why: "not needed" }),
      ]);
      expect(await audit("?operator=operator&action=cancelJob&limit=1")).toHaveLength(1);
      expect(await audit(`?target=${id}`)).toHaveLength(5);
      expect(JSON.stringify(await audit())).not.toContain("secret");
    });

    it("has why of each", async () => {
      const needed: Record<string, object> = {
        processQueue: { queue: "nobody" },
        startBulk: { action: "cancel", expected: 1 },
        limitQueue: { limit: null, rate: null },
      };
      const deeds = OPERATIONS.filter((one) => one.method !== "get" && one.changes !== false);
      for (const { id: action, method, path, body } of deeds) {
        const at = path
          .replace("bulk/:id", "bulk/999")
          .replace(":id", "1-1")
          .replace(":name", "nobody");
        const why = `why of ${action}`;
        const { status } = body
          ? await admin.call(method, at, { body: { ...needed[action], why } })
          : await admin.call(method, `${at}?${new URLSearchParams({ why }).toString()}`);
        expect([action, [404, 409].includes(status)]).toEqual([action, true]);
        expect(await audit("?limit=1")).toMatchObject([{ action, why }]);
      }
      expect(await audit()).toHaveLength(deeds.length);
    });

    it("has nothing of who may not, and is for admins", async () => {
      const id = await waiting();
      expect((await admin.post(`jobs/${id}/cancel`, { as: "viewer" })).status).toBe(403);
      expect((await admin.post(`jobs/${id}/cancel`, { as: null })).status).toBe(401);
      expect((await admin.post(`jobs/${id}/cancel`, { body: { wy: "x" } })).status).toBe(400);
      expect(await audit()).toEqual([]);
      expect((await admin.get("audit", { as: "operator" })).status).toBe(403);
    });

    it("does nothing that it cannot write down", async () => {
      const id = await waiting();
      await bench.sql("alter table jobs.audit add constraint closed check (false) not valid");
      expect((await admin.post(`jobs/${id}/cancel`)).status).toBe(500);
      expect(await bench.state(id)).toBe("queued");
    });

    it("has how a deed ended also when that could not be said at once, or its answer was not kept", async () => {
      const id = await waiting();
      const ending = jest
        .spyOn(admin.app.get(JobAudit), "end")
        .mockRejectedValueOnce(new Error("away"));
      expect((await admin.post(`jobs/${id}/cancel`)).status).toBe(200);
      await until(async () => ((await audit())[0] as { outcome: unknown }).outcome === "done", {
        what: "it is said later",
      });
      expect(ending).toHaveBeenCalledTimes(2);
      const keeping = jest
        .spyOn(admin.app.get(JobRequests), "answer")
        .mockRejectedValue(new Error("away"));
      const headers = { "idempotency-key": "refused" };
      const refused = await admin.post(`jobs/${await waiting()}/requeue`, { headers });
      expect(said(refused)).toEqual([409, "JOB_NOT_REQUEUEABLE"]);
      expect((await audit())[0]).toMatchObject({ outcome: "JOB_NOT_REQUEUEABLE" });
      expect(keeping).toHaveBeenCalledTimes(1);
      jest.restoreAllMocks();
    });

    it("is left out on an older schema, and what is done is done", async () => {
      const id = await waiting();
      await bench.sql("delete from jobs.migration where version >= 8");
      const old = await AdminApp.open(bench, adapter);
      expect((await old.post(`jobs/${id}/cancel`)).status).toBe(200);
      expect((await old.get("audit")).body).toMatchObject({ code: "SCHEMA_NOT_READY" });
      await old.close();
      expect(await bench.sql("select 1 from jobs.audit")).toEqual([]);
    });
  });

  describe("an Idempotency-Key", () => {
    const key = (value: string) => ({ "idempotency-key": value });

    it("is not given back when what was done could not be kept: it is done once", async () => {
      const id = await waiting();
      await admin.jobs.cancel(id);
      const kept = jest
        .spyOn(admin.app.get(JobRequests), "answer")
        .mockRejectedValueOnce(new Error("away"));
      const send = () => admin.post(`jobs/${id}/requeue`, { headers: key("kept") });
      expect((await send()).status).toBe(200);
      expect(kept).toHaveBeenCalledTimes(1);
      const again = await send();
      expect([again.status, again.body.code]).toEqual([409, "IDEMPOTENCY_KEY_BUSY"]);
      kept.mockRestore();
    });

    it("has a request answered as the first time, and done once", async () => {
      const id = await waiting();
      const cancel = async () =>
        await admin.post(`jobs/${id}/cancel`, { body: { why: "x" }, headers: key("k1") });
      const first = await cancel();
      await admin.jobs.requeue(id);
      const second = await cancel();
      expect(second).toMatchObject({ status: 200, body: first.body });
      expect(first.headers.get("idempotency-replayed")).toBeNull();
      expect(second.headers.get("idempotency-replayed")).toBe("true");
      expect(await bench.state(id)).toBe("queued");
      expect(await audit()).toHaveLength(1);
    });

    it("keeps a refusal too, and is one operator's own", async () => {
      const id = await waiting();
      const requeue = async (as: keyof typeof TOKENS) =>
        await admin.post(`jobs/${id}/requeue`, { as, headers: key("k2") });
      expect(await requeue("operator")).toMatchObject({
        status: 409,
        body: { code: "JOB_NOT_REQUEUEABLE", state: "queued" },
      });
      await admin.jobs.cancel(id);
      expect(await requeue("operator")).toMatchObject({
        status: 409,
        body: { code: "JOB_NOT_REQUEUEABLE", state: "queued" },
      });
      expect((await requeue("admin")).status).toBe(200);
    });

    it("is refused for another request, and when it is none", async () => {
      const [one, two] = [await waiting(), await waiting()];
      await admin.post(`jobs/${one}/cancel`, { headers: key("k3") });
      for (const [path, body] of [
        [`jobs/${two}/cancel`, undefined],
        [`jobs/${one}/cancel`, { why: "another" }],
      ] as const)
        expect(await admin.post(path, { body, headers: key("k3") })).toMatchObject({
          status: 422,
          body: { code: "IDEMPOTENCY_KEY_REUSED" },
        });
      for (const bad of ["x".repeat(256), "a b"])
        expect(await admin.post(`jobs/${two}/cancel`, { headers: key(bad) })).toMatchObject({
          status: 400,
          body: { code: "IDEMPOTENCY_KEY_INVALID" },
        });
      expect(await bench.state(two)).toBe("queued");
    });

    describe("of which nobody knows how it ended", () => {
      const run = async (value: string) =>
        await admin.post("schedules/fast/run", { headers: key(value) });
      const enqueued = async () => (await bench.sql("select 1 from jobs.job")).length;
      const MAYBE = { status: 409, body: { code: "IDEMPOTENCY_OUTCOME_UNKNOWN" } };
      beforeEach(
        async () =>
          void (await admin.jobs.schedules.upsert("fast", "waits", {
            cron: "@yearly",
            overlap: "queue",
          })),
      );

      it("is never done again when its process has died", async () => {
        expect((await run("died")).status).toBe(200);
        const silentFor = async (time: string) =>
          await bench.sql(
            "update jobs.request set status = null, body = null, began_at = now() - $1::interval",
            [time],
          );
        // As long as POST process may take, and some more.
        await silentFor("4 minutes");
        expect(await run("died")).toMatchObject({
          status: 409,
          body: { code: "IDEMPOTENCY_KEY_BUSY" },
        });
        await silentFor("6 minutes");
        const again = await run("died");
        expect(again).toMatchObject(MAYBE);
        expect(again.body.detail).toMatch(/may have been done.*audit.*another key/);
        expect([await enqueued(), await audit()]).toMatchObject([1, [{ outcome: "done" }]]);
        expect((await run("another")).status).toBe(200);
        expect(await enqueued()).toBe(2);
      });

      it("is not done again when the answer of the database was lost, and names the job", async () => {
        const { schedules } = admin.jobs;
        const really = schedules.runNow.bind(schedules);
        const lost = jest.spyOn(schedules, "runNow").mockImplementationOnce(async (name) => {
          const { id } = await really(name);
          throw new EnqueueOutcomeUnknownError([id]);
        });
        const first = await run("lost");
        const ids = [expect.stringMatching(/^\d+-\d+$/)];
        expect(first).toMatchObject({
          status: 503,
          body: { code: "ENQUEUE_OUTCOME_UNKNOWN", ids },
        });
        for (let n = 0; n < 2; n++)
          expect(await run("lost")).toMatchObject({
            ...MAYBE,
            body: { ...MAYBE.body, ids: first.body.ids },
          });
        expect([await enqueued(), lost.mock.calls.length]).toEqual([1, 1]);
        lost.mockRestore();
      });

      it("is not done again when something of ours failed after it was begun", async () => {
        const { schedules } = admin.jobs;
        const broken = jest.spyOn(schedules, "runNow").mockRejectedValueOnce(new Error("ours"));
        expect((await run("ours")).status).toBe(500);
        broken.mockRestore();
        expect(await run("ours")).toMatchObject(MAYBE);
        expect(await audit()).toMatchObject([{ outcome: "INTERNAL" }]);
      });

      it("is told so at once: the connection was lost while an order was written", async () => {
        await waiting("many");
        const { proxy, url } = await bench.line();
        const far = await AdminApp.open(bench, adapter, undefined, {
          jobs: { connection: { url } },
        });
        const body = { action: "cancel", queue: "many", expected: 1 };
        const order = async () => await far.post("bulk", { body, headers: key("order") });
        await far.post("bulk/preview", { body: { action: "cancel" } });
        proxy.muteFrom("bulk as b (action");
        const first = order();
        await until(
          async () => proxy.held > 0 && (await bench.sql("select 1 from jobs.bulk")).length > 0,
          { what: "the order is written, and nobody has heard" },
        );
        proxy.resetAll();
        proxy.setMode("pass");
        const told = await first;
        expect(told).toMatchObject({ status: 503, body: { code: "OUTCOME_UNKNOWN" } });
        expect(told.headers.get("retry-after")).toBeNull();
        expect(await order()).toMatchObject(MAYBE);
        await until(
          async () =>
            (await bench.sql("select 1 from jobs.audit where outcome is not null")).length,
          { what: "the audit has it" },
        );
        expect(await audit()).toMatchObject([{ action: "startBulk", outcome: "OUTCOME_UNKNOWN" }]);
        expect(await bench.sql("select 1 from jobs.bulk")).toHaveLength(1);
        await far.close();
      });
    });

    it("does not say that what was done was not, when what it answers cannot be read", async () => {
      await waiting();
      await admin.jobs.schedules.upsert("nightly", "waits", { cron: "@yearly" });
      await admin.jobs.schedules.runNow("nightly");
      const client = await bench.client();
      const deeds = [
        ["post", "schedules/nightly/pause", {}],
        ["patch", "queues/default", { limit: { max: 777 }, rate: null }],
      ] as const;
      for (const [method, path, body] of deeds) {
        const send = async () => await admin.call(method, path, { body, headers: key(path) });
        await client.query("begin");
        await client.query(`lock table ${bench.schema}.job in access exclusive mode`);
        expect(said(await send())).toEqual([503, "OUTCOME_UNKNOWN"]);
        await client.query("rollback");
        expect(said(await send())).toEqual([409, "IDEMPOTENCY_OUTCOME_UNKNOWN"]);
        expect((await audit("?limit=1"))[0]).toMatchObject({ outcome: "OUTCOME_UNKNOWN" });
      }
      client.release();
      expect((await admin.jobs.schedules.get("nightly"))!.paused).toMatchObject({ by: "admin" });
      expect(await admin.jobs.queues.limits("default")).toMatchObject([{ limit: 777 }]);
    });

    it("gives a key back, or keeps an answer, as soon as the database is there again", async () => {
      const id = await waiting();
      const requests = admin.app.get(JobRequests);
      const client = await bench.client();
      await client.query("begin");
      await client.query(`select 1 from ${bench.schema}.job for update`);
      const send = async () => await admin.post(`jobs/${id}/cancel`, { headers: key("later") });
      const drop = jest.spyOn(requests, "drop").mockRejectedValueOnce(new Error("away"));
      expect(said(await send())).toEqual([409, "JOB_LOCKED"]);
      await client.query("rollback");
      client.release();
      const answer = jest.spyOn(requests, "answer").mockRejectedValueOnce(new Error("away"));
      await until(async () => (await send()).status === 200, { what: "the key is free again" });
      await until(async () => (await send()).headers.get("idempotency-replayed") === "true", {
        what: "the answer is kept",
      });
      drop.mockRestore();
      answer.mockRestore();
    });

    it("may try again what a lock has kept from being done", async () => {
      const id = await waiting();
      const client = await bench.client();
      for (const [lock, path, refusal] of [
        ["select 1 from jobs.job for update", `jobs/${id}/cancel`, [409, "JOB_LOCKED"]],
        ["lock table jobs.queue", "queues/default/pause", [503, "DATABASE_UNAVAILABLE"]],
      ] as const) {
        const send = async () => await admin.post(path, { headers: key(path) });
        await client.query("begin");
        await client.query(lock.replace("jobs.", `${bench.schema}.`));
        expect(said(await send())).toEqual(refusal);
        await client.query("rollback");
        expect((await send()).status).toBe(200);
      }
      client.release();
    });

    it("is told that the first one is under way, and may try again what failed here", async () => {
      const id = await waiting();
      const cancel = async () => await admin.post(`jobs/${id}/cancel`, { headers: key("k4") });
      await bench.sql("alter table jobs.audit add constraint closed check (false) not valid");
      expect((await cancel()).status).toBe(500);
      await bench.sql("alter table jobs.audit drop constraint closed");
      const elsewhere = await AdminApp.open(bench, adapter);
      const client = await bench.client();
      await client.query("begin");
      await client.query(`select 1 from ${bench.schema}.job for update`);
      const first = cancel();
      await until(async () => (await bench.sql("select 1 from jobs.request")).length, {
        what: "it is under way",
      });
      // In another process: behind the same connection it would wait for the first.
      expect(await elsewhere.post(`jobs/${id}/cancel`, { headers: key("k4") })).toMatchObject({
        status: 409,
        body: { code: "IDEMPOTENCY_KEY_BUSY" },
      });
      await client.query("rollback");
      client.release();
      expect((await first).status).toBe(200);
      expect((await cancel()).status).toBe(200);
      await elsewhere.close();
    });
  });

  it("deletes what does not run, and says why not", async () => {
    const id = await waiting();
    expect(await admin.delete(`jobs/${id}`, { as: "viewer" })).toMatchObject({ status: 403 });
    expect(await admin.delete(`jobs/${id}`, { as: "operator" })).toMatchObject({
      status: 200,
      body: { id, answer: "deleted" },
    });
    expect(await admin.delete(`jobs/${id}`)).toMatchObject({ body: { code: "JOB_UNKNOWN" } });
    let open!: () => void;
    const opened = new Promise<void>((resolve) => (open = resolve));
    await bench.worker([handler("runs", () => opened)]);
    const running = (await admin.jobs.enqueue("runs")).id;
    await until(async () => (await bench.state(running)) === "running", { what: "it runs" });
    expect(await admin.delete(`jobs/${running}`)).toMatchObject({
      status: 409,
      body: { code: "JOB_RUNS", state: "running" },
    });
    open();
  });

  it("works off what is due, and says when nobody could", async () => {
    const { id } = await admin.jobs.enqueue("works", {}, { queue: "due" });
    expect(await admin.post("process", { body: { queue: "due" } })).toMatchObject({
      status: 409,
      body: { code: "NO_WORKER" },
    });
    expect(await admin.post("process", { body: { queue: "dew" } })).toMatchObject({ status: 404 });
    expect(await admin.post("process", { body: {} })).toMatchObject({ status: 400 });
    await bench.worker([handler(defineJob("works", { queue: "due" }), () => "done")]);
    await until(async () => (await bench.state(id)) === "succeeded", { what: "it is over" });
    expect(await admin.post("process", { body: { queue: "due", limit: 5 } })).toMatchObject({
      status: 200,
      body: { jobs: 0, waiting: 0 },
    });
  });

  it("cancels many: previews, asks for the count, works off, lists, stops", async () => {
    for (let n = 0; n < 5; n++) await waiting("many");
    await waiting("other");
    const request = { action: "cancel", queue: "many", state: ["scheduled"] };
    const preview = await admin.post("bulk/preview", { as: "operator", body: request });
    expect(preview.body).toMatchObject({ count: 5, complete: true });
    expect(preview.body.sample).toHaveLength(5);
    expect(
      await admin.post("bulk", { as: "operator", body: { ...request, expected: 4 } }),
    ).toMatchObject({ status: 409, body: { code: "BULK_COUNT_DIFFERS" } });
    const order = { ...request, expected: 5, why: "wrong" };
    const started = await admin.post("bulk", { as: "operator", body: order });
    expect(started.body).toMatchObject({ action: "cancel", operator: "operator", why: "wrong" });
    const path = `bulk/${started.body.id as string}`;
    await until(async () => (await admin.get(path, { as: "viewer" })).body.state === "done", {
      what: "it is over",
    });
    expect(await bench.states()).toEqual({ cancelled: 5, queued: 1 });
    expect((await admin.get("bulk?limit=1")).body).toMatchObject({ items: [{ changed: 5 }] });
    expect((await admin.delete(path)).body).toMatchObject({ state: "done", changed: 5 });
    expect(await admin.get("bulk/999")).toMatchObject({ status: 404 });
    expect(await admin.delete("bulk/999")).toMatchObject({ body: { code: "BULK_UNKNOWN" } });
    expect((await admin.app.get(JobAudit).list({ action: "startBulk" })).items).toMatchObject([
      { outcome: "done", why: "wrong", details: { queue: "many", expected: 5 } },
      { outcome: "BULK_COUNT_DIFFERS" },
    ]);
  });
});
