import { JobsModule, defineJob } from "nestjs-pg-jobs";
import { ADAPTERS, AdminApp, said } from "../support/admin-app.js";
import { handler } from "../support/handlers.js";
import { Bench, feature } from "../support/harness.js";
import { until } from "../support/until.js";

// Queues, schedules and workers over HTTP.

const HOUR_MS = 3_600_000;

describe.each(ADAPTERS)("on %s", (adapter) => {
  let bench: Bench;
  let admin: AdminApp;
  beforeAll(async () => {
    bench = await Bench.open();
    admin = await AdminApp.open(bench, adapter);
    await admin.jobs.enqueue("send", { tenantId: "t1" }, { queue: "mail", delay: "1h" });
    await admin.jobs.enqueue("post", {}, { queue: "höher/tiefer & 100%", delay: "1h" });
  });
  afterAll(async () => {
    await admin.close();
    await bench.close();
  });

  const odd = `queues/${encodeURIComponent("höher/tiefer & 100%")}`;
  const as = "operator";

  it("lists them, and shows one with its limits", async () => {
    const { body } = await admin.get("queues", { as: "viewer" });
    expect(body.items).toMatchObject([
      { name: "höher/tiefer & 100%", kinds: ["post"], counts: { unfinished: 1 }, paused: null },
      { name: "mail", kinds: ["send"], health: { backlog: 0 }, pausedKinds: [] },
    ]);
    expect((await admin.get("queues/mail")).body).toEqual({
      ...(body.items as unknown as object[])[1],
      limits: [],
    });
    expect((await admin.get(odd)).body.name).toBe("höher/tiefer & 100%");
    const unknown = await admin.get("queues/mial");
    expect(said(unknown)).toEqual([404, "QUEUE_UNKNOWN"]);
    expect(unknown.body.detail).toMatch(/did you mean "mail"\? GET queues has them all\.$/);
  });

  it("pauses them in the name of who asks, and lets them go on", async () => {
    const until = new Date(Date.now() + HOUR_MS).toISOString();
    const body = { by: "somebody else", why: "the relay is down", until };
    const paused = { by: "operator", why: "the relay is down", until, at: expect.any(String) };
    expect((await admin.post("queues/mail/pause", { as, body })).body).toEqual({
      name: "mail",
      paused,
      kinds: [],
    });
    expect((await admin.get("queues/mail")).body.paused).toEqual(paused);
    const kind = await admin.post("queues/mail/pause", { as, body: { kind: "send" } });
    expect(kind.body.kinds).toMatchObject([
      { kind: "send", paused: { by: "operator", why: null } },
    ]);
    const resume = async (query: string) =>
      (await admin.call("delete", `queues/mail/pause${query}`, { as })).body;
    expect(await resume("")).toMatchObject({ paused: null, kinds: [{ kind: "send" }] });
    expect(await resume("?kind=send")).toEqual({ name: "mail", paused: null, kinds: [] });
    expect((await admin.post(`${odd}/pause`, { as })).body.paused).toMatchObject({ until: null });
    const none = await admin.post("queues/mail/pause", { as, body: { kind: "sent" } });
    expect(said(none)).toEqual([404, "KIND_UNKNOWN"]);
  });

  it("bounds them, and pauses one key of theirs", async () => {
    const patch = async (body: object) => await admin.call("patch", "queues/mail", { as, body });
    const limit = { max: 3, key: "tenantId" };
    const rate = { max: 100, per: "1m" };
    const { body } = await patch({ kind: "send", limit, rate, why: "month end", by: "nobody" });
    expect(body.limits).toMatchObject([
      { kind: "send", key: null, limit: null, rate: { max: 100, perMs: 60_000 }, by: "operator" },
      { kind: "send", key: "tenantId", limit: 3, rate: null, why: "month end" },
    ]);
    const part = { kind: "send", key: "t1" };
    expect((await admin.post("queues/mail/pause", { as, body: part })).status).toBe(200);
    const pausedKeys = async () => {
      const { limits } = (await admin.get("queues/mail")).body as unknown as {
        limits: { paused: { key: string; by: string }[] }[];
      };
      return limits.flatMap(({ paused }) => paused.map(({ key, by }) => [key, by]));
    };
    expect(await pausedKeys()).toEqual([["t1", "operator"]]);
    await admin.call("delete", "queues/mail/pause?kind=send&key=t1", { as });
    expect(await pausedKeys()).toEqual([]);
    expect((await patch({ kind: "send", limit: null, rate: null })).body.limits).toEqual([]);
  });

  it("wants both bounds said, so that none is lost by silence", async () => {
    const patch = async (body?: unknown) => await admin.call("patch", "queues/mail", { as, body });
    const half = await patch({ limit: { max: 1 } });
    expect(said(half)).toEqual([400, "BODY_INVALID"]);
    expect(half.body.problems).toEqual([
      "body.rate: expected it to be said, if only as null, found nothing",
    ]);
    expect(said(await patch())).toEqual([400, "BODY_INVALID"]);
    const bad = await patch({ limit: { max: 0 }, rate: { max: 1 } });
    expect(said(bad)).toEqual([400, "OPTIONS_INVALID"]);
    expect(bad.body.problems).toHaveLength(2);
    expect((await admin.get("queues/mail")).body.limits).toEqual([]);
  });

  it("lists schedules with their next times, runs, pauses and resumes them", async () => {
    const options = { cron: "0 3 * * *", timeZone: "Europe/Berlin", payload: { a: 1 } };
    const made = await admin.jobs.schedules.upsert("nightly", "report", options);
    const { body } = await admin.get("schedules");
    const [shown] = body.items as unknown as { next: string[]; nextAt: string }[];
    expect(shown).toMatchObject({ name: "nightly", payload: { a: 1 }, paused: null });
    expect(shown!.nextAt).toBe(made.nextAt!.toISOString());
    expect(shown!.next).toHaveLength(5);
    expect(shown!.next[0]).toBe(shown!.nextAt);
    for (const [index, at] of shown!.next.slice(1).entries())
      expect(Date.parse(at) - Date.parse(shown!.next[index]!)).toBeGreaterThanOrEqual(23 * HOUR_MS);

    const ran = await admin.post("schedules/nightly/run", { as });
    expect(ran.body).toEqual({ id: expect.any(String), deduplicated: false });
    expect((await admin.post("schedules/nightly/run", { as })).body).toEqual({
      id: ran.body.id,
      deduplicated: true,
    });
    const pause = await admin.post("schedules/nightly/pause", { as, body: { why: "holiday" } });
    expect(pause.body).toMatchObject({ next: [], paused: { by: "operator", why: "holiday" } });
    const resumed = await admin.call("delete", "schedules/nightly/pause", { as });
    expect(resumed.body).toMatchObject({ paused: null, next: shown!.next });
    const unknown = await admin.post("schedules/nigthly/run", { as });
    expect(said(unknown)).toEqual([404, "SCHEDULE_UNKNOWN"]);
    expect(unknown.body.detail).toMatch(/did you mean "nightly"\? GET schedules has them all\.$/);
  });

  it("shows workers", async () => {
    const work = handler(defineJob("send", { queue: "mail" }), () => "sent");
    await bench.app([
      bench.root(),
      JobsModule.forWorker({ imports: [feature([work])], queues: { mail: { concurrency: 3 } } }),
    ]);
    await until(
      async () => {
        const { body } = await admin.get("workers", { as: "viewer" });
        expect(body.items).toMatchObject([
          { alive: true, kinds: { mail: ["send"] }, slots: 3, pid: process.pid },
        ]);
        return true;
      },
      { what: "it has registered" },
    );
  });
});
