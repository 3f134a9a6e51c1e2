import { type JobContext, JobInspector, bury } from "nestjs-pg-jobs";
import { ADAPTERS, type AdminAnswer, AdminApp, said } from "../support/admin-app.js";
import { Gate, handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// Jobs over HTTP: what is found, shown, sent again and withdrawn.

describe.each(ADAPTERS)("on %s", (adapter) => {
  let bench: Bench;
  let admin: AdminApp;
  const gate = new Gate();
  beforeAll(async () => {
    bench = await Bench.open();
    admin = await AdminApp.open(bench, adapter);
    const dies = handler<string>("dies", (payload) =>
      (payload as { ok?: boolean }).ok ? "fine" : bury("no use"),
    );
    const talks = handler<string>("talks", async (_, job: JobContext) => {
      for (let line = 1; line <= 3; line++) job.log(`line ${line}`);
      job.progress(40, "begun");
      await gate.opened;
    });
    const fails = handler<string>("fails", () => {
      throw new Error("no luck");
    });
    await bench.worker([dies, talks, fails]);
  });
  afterAll(async () => {
    gate.open();
    await admin.close();
    await bench.close();
  });

  const ids = ({ body }: AdminAnswer) => (body.items as { id: string }[]).map(({ id }) => id);
  const stateIs = async (id: string, state: string) =>
    await until(async () => (await bench.state(id)) === state, { what: `it is ${state}` });
  async function dead(options: { key?: string; queue?: string } = {}): Promise<string> {
    const { id } = await admin.jobs.enqueue("dies", { a: 1 }, options);
    await stateIs(id, "dead");
    return id;
  }

  it("finds jobs by each filter, page by page", async () => {
    const made: string[] = [];
    for (let index = 0; index < 5; index++) {
      const options = { queue: "listed", delay: "1h", priority: index, key: `k${index}` } as const;
      made.unshift((await admin.jobs.enqueue("waits", {}, options)).id);
    }
    const found = async (query: string) => ids(await admin.get(`jobs?${query}`));
    expect(await found("queue=listed")).toEqual(made);
    expect(await found("queue=listed&state=scheduled")).toEqual(made);
    expect(await found("queue=listed&state=running,dead")).toEqual([]);
    expect(await found("queue=listed&state=dead&state=queued")).toEqual(made);
    expect(await found("queue=listed&kind=waits&key=k3&priority=3")).toEqual([made[1]]);
    const soon = new Date(Date.now() + 60_000).toISOString();
    expect(await found(`queue=listed&createdSince=${soon}`)).toEqual([]);
    expect(await found(`queue=listed&createdBefore=${soon}`)).toEqual(made);
    const first = await admin.get("jobs?queue=listed&limit=2");
    const second = await admin.get(`jobs?queue=listed&limit=3&after=${first.body.next as string}`);
    expect([...ids(first), ...ids(second)]).toEqual(made);
    expect(second.body).toMatchObject({ next: null, searchedBackTo: null });
  });

  it("finds what has failed and waits to be tried again", async () => {
    const options = { queue: "default", attempts: 3 };
    const { id } = await admin.jobs.enqueue("fails", {}, options);
    await until(async () => ids(await admin.get("jobs?state=retrying")).includes(id), {
      what: "it is found among those that are retried",
    });
    expect(ids(await admin.get("jobs?state=retrying&kind=dies"))).toEqual([]);
    await admin.post(`jobs/${id}/cancel`);
    await stateIs(id, "cancelled");
    expect(ids(await admin.get("jobs?state=retrying,scheduled&kind=fails"))).toEqual([]);
  });

  it("shows a job with all that is known of it", async () => {
    const id = await dead({ key: "shown" });
    const { body } = await admin.get(`jobs/${id}`);
    expect(body).toMatchObject({
      id,
      kind: "dies",
      state: "dead",
      payload: { a: 1 },
      result: null,
      key: "shown",
      errors: [{ attempt: 1, error: { message: "no use" } }],
      logs: { items: [], next: null },
    });
    const events = (await admin.get(`jobs/${id}/history`)).body as unknown as { event: string }[];
    expect(body.history).toEqual(events);
    expect(events.map(({ event }) => event)).toEqual(["enqueued", "started", "died"]);
  });

  it("shows what one that runs says, and withdraws it", async () => {
    const { id } = await admin.jobs.enqueue("talks", {});
    await until(
      async () => {
        const { body } = await admin.get(`jobs/${id}`);
        expect(body).toMatchObject({ state: "running", progress: { percent: 40, note: "begun" } });
        expect((body.logs as { items: unknown[] }).items).toHaveLength(3);
        return true;
      },
      { what: "it has told" },
    );
    const first = await admin.get(`jobs/${id}/logs?limit=2&attempt=1`);
    expect(first.body.items).toMatchObject([{ text: "line 1" }, { text: "line 2" }]);
    const rest = await admin.get(`jobs/${id}/logs?after=${first.body.next as string}`);
    expect(rest.body).toMatchObject({ items: [{ line: 3, text: "line 3" }], next: null });
    const asked = await admin.post(`jobs/${id}/cancel`, { as: "operator" });
    expect(asked).toMatchObject({ status: 200, body: { id, answer: "requested" } });
    gate.open();
    await until(async () => ["cancelled", "succeeded"].includes((await bench.state(id))!), {
      what: "it ends",
    });
  });

  it("withdraws what waits, once and for all, and says when it cannot", async () => {
    const { id } = await admin.jobs.enqueue("waits", {}, { delay: "1h" });
    const cancel = async (job: string) =>
      await admin.post(`jobs/${job}/cancel`, { as: "operator" });
    expect((await cancel(id)).body).toEqual({ id, answer: "cancelled" });
    expect((await cancel(id)).body).toEqual({ id, answer: "cancelled" });
    const over = await cancel(await dead());
    expect(said(over)).toEqual([409, "JOB_NOT_CANCELLABLE"]);
    expect(over.body.state).toBe("dead");
    expect(said(await cancel("1-999999999999"))).toEqual([404, "JOB_UNKNOWN"]);
  });

  it("sends a dead letter again; with another payload if an admin says so", async () => {
    const id = await dead();
    const requeue = async (as: "operator" | "admin", body?: unknown) =>
      await admin.post(`jobs/${id}/requeue`, { as, body });
    const edit = { payload: { ok: true } };
    expect(said(await requeue("operator", edit))).toEqual([403, "ROLE_TOO_WEAK"]);
    expect(await bench.state(id)).toBe("dead");
    expect((await requeue("operator", {})).body).toEqual({ id, state: "queued" });
    await stateIs(id, "dead");
    expect((await requeue("operator")).body).toEqual({ id, state: "queued" });
    await stateIs(id, "dead");
    expect((await requeue("admin", edit)).body).toEqual({ id, state: "queued" });
    await stateIs(id, "succeeded");
    expect(said(await requeue("operator"))).toEqual([409, "JOB_NOT_REQUEUEABLE"]);
    expect((await admin.get(`jobs/${id}`)).body).toMatchObject({
      payload: { ok: true },
      result: "fine",
      attempt: 4,
    });
  });

  it("takes null for a payload, which is one", async () => {
    const { id } = await admin.jobs.enqueue("waits", { a: 1 }, { delay: "1h" });
    await admin.post(`jobs/${id}/cancel`);
    await admin.post(`jobs/${id}/requeue`, { body: { payload: null } });
    expect((await admin.get(`jobs/${id}`)).body).toMatchObject({ state: "queued", payload: null });
  });

  it("lists dead letters, and what has died within the hour", async () => {
    const id = await dead({ queue: "default" });
    const old = await dead();
    await bench.age(old, "2 hours");
    const { body } = await admin.get("dead-letters?kind=dies&queue=default&limit=200");
    const items = body.items as { id: string; state: string }[];
    expect(items.map((item) => item.id)).toEqual(expect.arrayContaining([id, old]));
    expect(new Set(items.map(({ state }) => state))).toEqual(new Set(["dead"]));
    const [row] = await bench.sql<{ n: number }>(
      `select count(*)::int as n from jobs.dead where kind = 'dies' and finished_at > now() - interval '1 hour'`,
    );
    expect(body.lastHour).toEqual([{ queue: "default", kind: "dies", dead: row!.n }]);
    expect(row!.n).toBeLessThan(items.length);
    const first = await admin.get("dead-letters?limit=1");
    const next = await admin.get(`dead-letters?limit=1&after=${first.body.next as string}`);
    expect(next.body.lastHour).toBeNull();
    expect(ids(next)).not.toEqual(ids(first));
    expect(said(await admin.get("dead-letters?state=queued"))).toEqual([400, "QUERY_INVALID"]);
  });

  it("counts by queue, kind and state", async () => {
    await dead();
    const counts = await admin.app.get(JobInspector).counts();
    expect(counts).toContainEqual(expect.objectContaining({ kind: "dies" }));
    expect((await admin.get("stats")).body).toMatchObject({ counts: expect.any(Array) });
    expect((await admin.get("")).body.routes).toContain("POST jobs/:id/requeue");
  });
});
