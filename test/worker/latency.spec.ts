import type { INestApplicationContext } from "@nestjs/common";
import { JobQueue, defineJob, fixed, snooze } from "nestjs-pg-jobs";
import { DataSource } from "typeorm";
import { Bench } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

const Job = defineJob<string>("job");
const Again = defineJob<{ wait: number; how: "retry" | "snooze" }>("again", {
  backoff: { delay: (_failures, error) => (error as { wait: number }).wait },
});

/** Far longer than any of these jobs may wait. */
const POLL = "30s";
/** What a loaded machine needs to start a job, or one that stands still for a while. */
const SOON = 5_000;

describe("how soon jobs start", () => {
  let bench: Bench;
  let started: Map<string, number>;
  beforeEach(async () => {
    bench = await Bench.open();
    started = new Map();
  });
  afterEach(async () => await bench.close());

  const note = handler(Job, (_payload, { id }) => void started.set(id, Date.now()));
  const start = async (id: string) =>
    await until(() => started.get(id), { what: `job ${id} to start` });

  /** A worker that has run a job: connected, its lanes known. */
  async function warm(worker: object, options = {}): Promise<INestApplicationContext> {
    const app = await bench.worker([note], worker, options);
    const { id } = await (await bench.producer({ notify: true })).enqueue(Job);
    await start(id);
    return app;
  }

  it("without NOTIFY everything is found by polling: new, of a new priority, delayed", async () => {
    const jobs = await bench.producer({ notify: false });
    await bench.worker([note], { poll: "100ms" }, { notify: false });
    for (const options of [{}, {}, { priority: 7 }, { delay: "500ms" }]) {
      const { id } = await jobs.enqueue(Job, "", options);
      await start(id);
    }
    const listening = await bench.sql(
      "select 1 from pg_stat_activity where application_name = 'pg-jobs listen' and query like '%' || $1 || '%'",
      [bench.schema],
    );
    expect(listening).toEqual([]);
  });

  it("with NOTIFY another app's job starts at once, of a new priority too, and after a transaction", async () => {
    await warm({ poll: POLL });
    const jobs = await bench.producer();
    const client = await bench.client();
    for (const options of [{}, { priority: 3 }, {}]) {
      const from = Date.now();
      const { id } = await jobs.enqueue(Job, "", options);
      expect((await start(id)) - from).toBeLessThan(SOON);
    }
    await client.query("begin");
    const { id } = await jobs.in(client).enqueue(Job);
    await client.query("commit");
    const from = Date.now();
    client.release();
    expect((await start(id)) - from).toBeLessThan(SOON);
  });

  it("with NOTIFY, also when a worker of the enqueuing app serves the queue but not the kind", async () => {
    await warm({ poll: POLL });
    const app = await bench.worker([handler("other", () => {})], { poll: POLL });
    const jobs = app.get(JobQueue);
    await reached(bench, (await jobs.enqueue("other")).id, "succeeded");
    const from = Date.now();
    const { id } = await jobs.enqueue(Job);
    expect((await start(id)) - from).toBeLessThan(SOON);
  });

  describe("behind the place from which claims look, while others of the kind are claimed", () => {
    let jobs: JobQueue;
    beforeEach(async () => {
      await warm({ poll: POLL });
      jobs = await bench.producer();
    });

    /** Until the end claims look from the last job on. */
    async function busy(ms: number): Promise<void> {
      for (const end = Date.now() + ms; Date.now() < end;)
        await jobs.enqueue(Job).then(() => new Promise((resolve) => setTimeout(resolve, 5)));
    }

    it("a job of a TypeORM transaction that was open for long starts after its commit", async () => {
      const source = await new DataSource({ type: "postgres", url: bench.url }).initialize();
      try {
        let from = 0;
        const { id } = await source.transaction(async (em) => {
          const made = await jobs.in(em).enqueue(Job);
          await busy(2_000);
          from = Date.now();
          return made;
        });
        expect((await start(id)) - from).toBeLessThan(SOON);
      } finally {
        await source.destroy();
      }
    });

    it("a job of a pg client's transaction that was open for long starts after its commit", async () => {
      const client = await bench.client();
      await client.query("begin");
      const { id } = await jobs.in(client).enqueue(Job);
      await busy(2_000);
      const from = Date.now();
      await client.query("commit");
      client.release();
      expect((await start(id)) - from).toBeLessThan(SOON);
    });

    it("a job that is due since long ago starts at once", async () => {
      await busy(1_000);
      const from = Date.now();
      const { id } = await jobs.enqueue(Job, "", { at: new Date(from - 60_000) });
      expect((await start(id)) - from).toBeLessThan(SOON);
    });
  });

  it("jobs beyond the free slots of the app that enqueues them are started by others", async () => {
    const gate = new Gate();
    const ran = new Set<string>();
    const named = (name: string) => [
      handler(Job, async (payload) => {
        ran.add(name);
        if (payload === "held") await gate.opened;
      }),
    ];
    const one = { poll: POLL, queues: { default: { concurrency: 1, prefetch: 1 } } };
    await bench.worker(named("other"), one);
    const app = await bench.worker(named("own"), one);
    const jobs = app.get(JobQueue);
    // Connected, its lanes known.
    await reached(bench, (await jobs.enqueue(Job)).id, "succeeded");
    ran.clear();
    await jobs.enqueueMany(Job, ["held", "held", "held", "held"]);
    await until(() => ran.size === 2, { what: "a body in each app" });
    gate.open();
  });

  it("an app's own worker needs no NOTIFY", async () => {
    const app = await bench.worker([note], { poll: POLL }, { notify: false });
    const jobs = app.get(JobQueue);
    for (const options of [{}, {}, { priority: 3 }]) {
      const { id } = await jobs.enqueue(Job, "", options);
      await start(id);
    }
    expect(started.size).toBe(3);
  });

  it("delayed jobs start when they are due, never before, whatever the poll interval", async () => {
    // Seen by the second look, and not left to the third.
    const app = await bench.worker([note], { poll: "5s" });
    const jobs = await bench.producer({ notify: false });
    await start((await app.get(JobQueue).enqueue(Job)).id);
    const waits = [5_300, 5_700, 6_100];
    const sent = await Promise.all(
      waits.map(async (delay) => (await jobs.enqueue(Job, "", { delay })).id),
    );
    for (const id of sent) {
      const at = await start(id);
      const due = Date.parse((await jobs.get(id))!.runAt);
      const late = at - due;
      // Clocks of different processors may differ by little.
      expect(late).toBeGreaterThanOrEqual(-5);
      expect(late).toBeLessThan(2_500);
    }
  });

  it.each(["retry", "snooze"] as const)("%s: each comes back in time", async (how) => {
    const back: number[] = [];
    const app = await bench.worker(
      [
        handler(Again, ({ wait }, { attempt }) => {
          if (attempt > 1) return void back.push(Date.now());
          if (how === "snooze") return snooze(wait);
          throw Object.assign(new Error("again"), { wait });
        }),
      ],
      { poll: "20s" },
    );
    const from = Date.now();
    const waits = [400, 800, 1_200];
    await app.get(JobQueue).enqueueMany(
      Again,
      waits.map((wait) => ({ payload: { wait, how } })),
    );
    await until(() => back.length === waits.length, { what: "all to come back" });
    for (const [index, wait] of waits.entries()) {
      expect(back[index]! - from).toBeGreaterThanOrEqual(wait - 5);
      expect(back[index]! - from).toBeLessThan(wait + SOON);
    }
  });

  it("a backoff shorter than a clock tick comes back at once", async () => {
    let runs = 0;
    const Quick = defineJob("quick", { backoff: fixed(1, { jitter: 0 }), attempts: 20 });
    const app = await bench.worker(
      [
        handler(Quick, () => {
          if (++runs < 20) throw new Error("again");
        }),
      ],
      { poll: POLL },
    );
    const { id } = await app.get(JobQueue).enqueue(Quick);
    expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 20 });
  });
});
