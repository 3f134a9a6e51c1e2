import { JobQueue } from "nestjs-pg-jobs";
import { DeliverEvent } from "nestjs-pg-jobs-samples";
import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps, asAdmin } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The story of the event worker: tried again after 1 m, 5 m, 30 m, 2 h and 12 h, five minutes a run, then a person.

let bench: Bench;
let apps: SampleApps;
let api: HttpApp;
let admin: HttpApp;

beforeAll(async () => {
  bench = await Bench.open();
  apps = new SampleApps(bench.schema);
  api = await apps.api();
  admin = await apps.admin();
  await apps.worker();
});
afterAll(async () => {
  await apps.close();
  await bench.close();
});

const job = async (id: string) =>
  (
    await bench.sql<{ state: string; failures: number; wait: number; last_error: string | null }>(
      `select state, failures, last_error, extract(epoch from run_at - now())::float8 as wait
       from jobs.job_status where id = $1`,
      [id],
    )
  )[0];

const post = async (name: string) =>
  (await api.post("/events", { name, data: { orderId: 7 } })).body.jobId as unknown as string;

async function failed(id: string, failures: number) {
  return await until(
    async () => {
      const found = await job(id);
      return found?.state === "queued" && found.failures === failures ? found : undefined;
    },
    { what: `${failures} runs have failed` },
  );
}

describe("the event worker", () => {
  it("delivers", async () => {
    const id = await post("order.placed");
    await until(async () => (await job(id))?.state === "succeeded", { what: "it is delivered" });
    expect((await api.app.get(JobQueue).get(id))?.result).toEqual({ status: 204 });
  });

  it("tries again after 1m, 5m, 30m, 2h and 12h, and not before; then it is a dead letter", async () => {
    const id = await post("order.refused");
    for (const [index, wait] of [60, 300, 1_800, 7_200, 43_200].entries()) {
      const row = await failed(id, index + 1);
      expect(row.wait).toBeLessThan(wait + 0.5);
      expect(row.wait).toBeGreaterThan(wait - 5);
      expect(row.last_error).toBe("the subscriber answered 503");
      await bench.age(id, `${wait} seconds`);
    }
    await until(async () => (await job(id))?.state === "dead", { what: "it is dead" });
    const letter = (await admin.get(`/admin/jobs/${id}`, asAdmin)).body;
    expect(letter).toMatchObject({
      state: "dead",
      failures: 6,
      payload: { name: "order.refused", data: { orderId: 7 } },
    });
    expect(letter.errors).toHaveLength(6);

    await admin.post(
      `/admin/jobs/${id}/requeue`,
      { payload: { name: "order.mended", data: null } },
      asAdmin,
    );
    await until(async () => (await job(id))?.state === "succeeded", { what: "it is delivered" });
  });

  it("gives each run five minutes, whatever the worker has as its default", async () => {
    const id = await post("order.timed");
    await until(async () => (await job(id))?.state === "succeeded", { what: "it is delivered" });
    const [queueId, number] = id.split("-");
    expect(
      await bench.sql<{ timeout_ms: string }>(
        "select timeout_ms from jobs.done where queue_id = $1 and id = $2",
        [queueId, number],
      ),
    ).toEqual([{ timeout_ms: "300000" }]);
  });

  it("gives each run its time, aborts it, and counts that as a failure", async () => {
    const jobs = api.app.get(JobQueue);
    const { id } = await jobs.enqueue(
      DeliverEvent,
      { name: "order.hangs", data: 1 },
      { timeout: "300ms" },
    );
    const row = await failed(id, 1);
    expect(row.last_error).toMatch(/300 ms/);
    expect(row.wait).toBeGreaterThan(50);
  });

  it.each([
    ["no name", { data: 1 }],
    ["an empty name", { name: "", data: 1 }],
    ["more than is known", { name: "a", data: 1, prio: 5 }],
  ])("answers 400 for %s", async (_what, body) => {
    expect(await api.post("/events", body)).toMatchObject({ status: 400 });
  });
});
