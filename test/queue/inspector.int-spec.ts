import { readFileSync } from "node:fs";
import { type INestApplicationContext } from "@nestjs/common";
import { JobInspector, JobQueue } from "nestjs-pg-jobs";
import { beat, register, retire } from "../../libs/jobs/src/store/workers/workers.js";
import { ensureQueue } from "../../libs/jobs/src/store/queues/lanes.js";
import { Bench } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

// What people who operate it look at: queues, and the workers that serve them.

let bench: Bench;
let app: INestApplicationContext;
let inspector: JobInspector;
beforeEach(async () => {
  bench = await Bench.open();
  app = await bench.app([bench.root()]);
  inspector = app.get(JobInspector);
});
afterEach(async () => await bench.close());

describe("queues", () => {
  it("are listed with their jobs by state and their kinds, those without a job too", async () => {
    const jobs = app.get(JobQueue);
    expect(await inspector.queues()).toEqual([]);
    await ensureQueue(bench.session(), "empty");
    await jobs.enqueueMany("b", [{}, {}], { queue: "full" });
    await jobs.enqueue("a", {}, { queue: "full", priority: 3 });
    const { id } = await jobs.enqueue("a", {}, { queue: "full" });
    await jobs.cancel(id);
    const none = {
      succeeded: 0,
      skipped: 0,
      cancelled: 0,
      dead: 0,
      archived: 0,
      pruned: 0,
      deleted: 0,
    };
    expect(await inspector.queues()).toEqual([
      { queue: "empty", kinds: [], ...none, unfinished: 0, createdAt: expect.any(String) },
      {
        queue: "full",
        kinds: ["a", "b"],
        ...none,
        unfinished: 3,
        cancelled: 1,
        createdAt: expect.stringMatching(/^20.*Z$/),
      },
    ]);
  });
});

describe("workers", () => {
  const card = { host: "h", kinds: { mail: ["send"] }, slots: 4 };

  it("say what they serve and how they are", async () => {
    const session = bench.session();
    const alive = await register(session, { ...card, pid: 1 });
    await beat(session, alive, 3, 2);
    await retire(session, await register(session, { ...card, pid: 2 }), 0);
    const silent = await register(session, { ...card, pid: 3 });
    await bench.sql(
      "update jobs.worker set beat_at = now() - interval '10 minutes' where id = $1",
      [silent],
    );
    const old = await register(session, { ...card, pid: 4 });
    await bench.sql("update jobs.worker set beat_at = now() - interval '2 days' where id = $1", [
      old,
    ]);
    const seen = await inspector.workers();
    expect(seen.map(({ worker }) => worker)).toEqual(["h:1", "h:3", "h:2"]);
    expect(seen[0]).toEqual({
      ...card,
      worker: "h:1",
      pid: 1,
      alive: true,
      startedAt: expect.stringMatching(/^20.*Z$/),
      stoppedAt: null,
      beatAt: expect.stringMatching(/^20.*Z$/),
      beatAgeMs: expect.any(Number),
      running: 3,
      lost: 2,
      release: null,
      loopDelayMs: null,
      current: [],
    });
    expect(seen[1]).toMatchObject({ alive: false, stoppedAt: null });
    expect(seen[1]!.beatAgeMs).toBeGreaterThanOrEqual(600_000);
    expect(seen[2]).toMatchObject({ alive: false, stoppedAt: expect.any(String), running: 0 });
  });

  it("say with each beat what runs for how long, and how late their timers are", async () => {
    const session = bench.session();
    const vitals = {
      release: "1.2.3",
      loopDelayMs: 4.5,
      current: [{ id: "1-7", kind: "work", ranMs: 90_000 }],
    };
    const id = await register(session, { ...card, pid: 1, keepFinishedMs: 1_000, vitals });
    const shown = async () => (await inspector.workers())[0]!;
    const first = await shown();
    expect(first).toMatchObject({ release: "1.2.3", loopDelayMs: 4.5 });
    const startedAt = new Date(Date.parse(first.beatAt) - 90_000).toISOString();
    expect(first.current).toEqual([{ id: "1-7", kind: "work", startedAt }]);
    await beat(session, id, 0, 0, { release: "1.2.4", loopDelayMs: 0.1, current: [] });
    expect(await shown()).toMatchObject({ release: "1.2.4", loopDelayMs: 0.1, current: [] });
    await beat(session, id, 1, 0, vitals);
    await retire(session, id, 0);
    expect(await shown()).toMatchObject({ release: "1.2.3", current: [] });
  });

  it("that went on under a new id are shown once", async () => {
    const session = bench.session();
    const first = await register(session, { ...card, pid: 1 });
    await bench.sql("update jobs.worker set beat_at = now() - interval '2 minutes'");
    await register(session, { ...card, pid: 1 });
    expect(first).toBeGreaterThan(0);
    expect((await inspector.workers()).map(({ alive }) => alive)).toEqual([true]);
    // Two of one process that both live are two.
    await register(session, { ...card, pid: 1 });
    expect(await inspector.workers()).toHaveLength(2);
  });

  it("are those that run", async () => {
    const gate = new Gate();
    const working = await bench.worker([handler("work", async () => await gate.opened)]);
    const { id } = await working.get(JobQueue).enqueue("work", {});
    await reached(bench, id, "running");
    const [seen] = await inspector.workers();
    expect(seen).toMatchObject({ pid: process.pid, alive: true, kinds: { default: ["work"] } });
    const { version } = JSON.parse(
      readFileSync(new URL("../../libs/jobs/package.json", import.meta.url), "utf8"),
    ) as { version: string };
    expect(seen).toMatchObject({ release: version, loopDelayMs: expect.any(Number) });
    expect((await inspector.get(id))!.worker).toBe(seen!.worker);
    gate.open();
    await working.close();
    // It says so when it goes, and does not wait long for the answer.
    await until(async () => (await inspector.workers())[0]!.alive === false, {
      what: "it is gone",
    });
    expect((await inspector.workers())[0]).toMatchObject({ alive: false, running: 0 });
  });
});

describe("counters and health that take long", () => {
  it("keep no enqueue waiting: they have a connection of their own, where one is left", async () => {
    const jobs = app.get(JobQueue);
    await jobs.enqueue("a");
    await inspector.health();
    const client = await bench.client();
    await client.query(`begin; lock table ${bench.schema}.stat in access exclusive mode`);
    // Each waits for the table until its lock_timeout.
    const slow = [inspector.health(), inspector.counts(), inspector.queues()].map((read) =>
      read.then(
        () => "answered",
        () => "refused",
      ),
    );
    const from = performance.now();
    for (let n = 0; n < 5; n++) await jobs.enqueue("a");
    expect(performance.now() - from).toBeLessThan(1_500);
    await client.query("rollback");
    client.release();
    expect(await Promise.all(slow)).toContain("answered");
  });

  it("take none where it would be the last one", async () => {
    const small = await bench.app([bench.root({ connections: 2 })]);
    const asked = async () =>
      await bench.sql(
        "select 1 from pg_stat_activity where application_name = 'pg-jobs front' and datname = current_database()",
      );
    await small.get(JobQueue).enqueue("a");
    const before = (await asked()).length;
    await small.get(JobInspector).health();
    expect((await asked()).length).toBe(before);
  });
});
