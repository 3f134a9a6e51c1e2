import { jest } from "@jest/globals";
import { Logger } from "@nestjs/common";
import {
  type JobQueue,
  JobQueue as Queue,
  JobsModule,
  OptionsError,
  UnknownKindError,
  UnknownQueueError,
  defineJob,
  fixed,
} from "nestjs-pg-jobs";
import { Gate, Gauge, handler } from "../support/handlers.js";
import { Bench, feature } from "../support/harness.js";
import { until } from "../support/until.js";

// What holds over all workers of a database: how many jobs run at once, and how many start in a window.

let bench: Bench;
beforeEach(async () => {
  jest.spyOn(Logger.prototype, "log").mockImplementation(() => {});
  bench = await Bench.open();
});
afterEach(async () => {
  await bench.close();
  jest.restoreAllMocks();
});

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const finished = async (count: number, timeout = 30_000) =>
  await until(async () => ((await bench.states()).succeeded ?? 0) >= count, {
    what: `${count} have run`,
    timeout,
  });

/** Counts who runs at once, of all and of each tenant. */
class Gauges {
  readonly all = new Gauge();
  readonly #each = new Map<string, Gauge>();
  readonly starts: { at: number; tenant: string }[] = [];

  readonly body = async ({ tenant, ms = 5 }: { tenant: string; ms?: number }) => {
    this.starts.push({ at: performance.now(), tenant });
    await this.all.during(() => this.of(tenant).during(() => sleep(ms)));
  };
  of(tenant: string): Gauge {
    const known = this.#each.get(tenant) ?? new Gauge();
    this.#each.set(tenant, known);
    return known;
  }
  get mostOfAny(): number {
    return Math.max(...[...this.#each.values()].map(({ most }) => most));
  }
}

describe("a limit of a handler", () => {
  it.each([1, 3])("of %i holds over three workers, and is used", async (max) => {
    const gauges = new Gauges();
    const Task = defineJob<{ tenant: string }>("task", { limit: { max } });
    for (let n = 0; n < 3; n++) await bench.worker([handler(Task, gauges.body)]);
    const jobs = await bench.producer();
    await jobs.enqueueMany(
      Task,
      Array.from({ length: 60 }, () => ({ payload: { tenant: "a" } })),
    );
    await finished(60);
    expect(gauges.all.most).toBe(max);
    await until(async () => (await bench.sql("select from jobs.slot")).length === 0, {
      what: "no slot is left",
    });
  });

  it("keeps nobody else: another kind of the queue goes on", async () => {
    const gate = new Gate();
    const Slow = defineJob("slow", { limit: { max: 1 } });
    const quick = jest.fn();
    await bench.worker([handler(Slow, () => gate.opened), handler("quick", quick)]);
    const jobs = await bench.producer();
    await jobs.enqueueMany(Slow, [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]);
    await jobs.enqueueMany("quick", [{}, {}, {}]);
    await until(() => quick.mock.calls.length === 3, { what: "the quick ones have run" });
    await until(async () => (await bench.states()).running === 1, { what: "one slow one runs" });
    gate.open();
    await finished(15);
  });

  it("holds while attempts fail, snooze and are cancelled", async () => {
    const gauge = new Gauge();
    const Task = defineJob<{ n: number }>("task", {
      limit: { max: 2 },
      attempts: 3,
      backoff: fixed(20),
    });
    const body = async ({ n }: { n: number }, job: { attempt: number }) =>
      await gauge.during(async () => {
        await sleep(5);
        if (n % 3 === 0 && job.attempt < 3) throw new Error("not yet");
      });
    for (let n = 0; n < 2; n++) await bench.worker([handler(Task, body)]);
    const jobs = await bench.producer();
    await jobs.enqueueMany(
      Task,
      Array.from({ length: 30 }, (_, n) => ({ payload: { n } })),
    );
    await finished(30);
    expect(gauge.most).toBe(2);
  });
});

describe("a limit of each key", () => {
  const Task = defineJob<{ tenant: string; ms?: number }>("task", {
    limit: { key: "tenant", max: 2 },
  });

  it("holds over workers, and tenants do not wait for one another", async () => {
    const gauges = new Gauges();
    for (let n = 0; n < 3; n++) await bench.worker([handler(Task, gauges.body)]);
    const jobs = await bench.producer();
    await jobs.enqueueMany(
      Task,
      Array.from({ length: 200 }, () => ({ payload: { tenant: "hot", ms: 20 } })),
    );
    await jobs.enqueueMany(
      Task,
      Array.from({ length: 40 }, (_, n) => ({ payload: { tenant: `t${n % 10}` } })),
    );
    await until(() => gauges.starts.filter(({ tenant }) => tenant !== "hot").length === 40, {
      what: "the others have run",
    });
    // In the time of a few jobs of the hot one, of which 200 came before.
    expect(gauges.starts.filter(({ tenant }) => tenant === "hot").length).toBeLessThan(120);
    await finished(240);
    expect(gauges.of("hot").most).toBe(2);
    expect(gauges.mostOfAny).toBe(2);
    expect(await bench.sql("select from jobs.parked")).toEqual([]);
  });

  it("who stops says so before, though others claim at the time", async () => {
    const gate = new Gate();
    const app = await bench.worker([handler(Task, async () => await gate.opened)]);
    const jobs = await bench.producer();
    await jobs.enqueue(Task, { tenant: "a" });
    const running = async () => await bench.sql("select from jobs.slot");
    await until(async () => (await running()).length === 1);
    const claims = await bench.client();
    await claims.query("begin");
    await claims.query(
      `select pg_advisory_xact_lock(${bench.schema}.lock_limits(id)) from ${bench.schema}.queue`,
    );
    gate.open();
    await finished(1);
    const closing = app.close();
    await sleep(150);
    await claims.query("commit");
    await closing;
    expect(await running()).toEqual([]);
  });

  it("in its order, and each time at once when the one before has ended", async () => {
    const order: number[] = [];
    const Serial = defineJob<{ tenant: string; n: number }>("serial", {
      limit: { key: "tenant", max: 1 },
    });
    await bench.worker([
      handler(Serial, async ({ n }) => {
        order.push(n);
        await sleep(2);
      }),
    ]);
    const jobs = await bench.producer();
    const from = performance.now();
    for (let n = 0; n < 50; n++) await jobs.enqueue(Serial, { tenant: "a", n });
    await finished(50);
    expect(order).toEqual(Array.from({ length: 50 }, (_, n) => n));
    // A sweep a second would take fifty.
    expect(performance.now() - from).toBeLessThan(10_000);
  });
});

describe("a rate", () => {
  it("holds over workers, by the clock of the server", async () => {
    const gauges = new Gauges();
    const Task = defineJob<{ tenant: string }>("task", { rate: { max: 20, per: "500ms" } });
    for (let n = 0; n < 3; n++) await bench.worker([handler(Task, gauges.body)]);
    const jobs = await bench.producer();
    await jobs.enqueueMany(
      Task,
      Array.from({ length: 90 }, () => ({ payload: { tenant: "a" } })),
    );
    await finished(90);
    const rows = await bench.sql<{ ms: number }>(
      "select extract(epoch from started_at)::float8 * 1000 as ms from jobs.done order by 1",
    );
    const times = rows.map(({ ms }) => ms);
    const most = Math.max(
      ...times.map((from) => times.filter((at) => at >= from && at < from + 500).length),
    );
    expect(most).toBeLessThanOrEqual(20);
    expect(times.at(-1)! - times[0]!).toBeLessThan(4_000);
  });
});

describe("changed while workers are at work", () => {
  async function working(concurrency = 10) {
    const gauges = new Gauges();
    for (let n = 0; n < 2; n++)
      await bench.worker([handler("task", gauges.body as never)], {
        queues: { default: { concurrency } },
      });
    const jobs: JobQueue = await bench.producer();
    return { gauges, jobs };
  }
  const many = (count: number, ms = 20) =>
    Array.from({ length: count }, (_, n) => ({ payload: { tenant: `t${n % 3}`, ms } }));

  it("the first one, tighter ones, wider ones, and none: each holds from then on", async () => {
    const { gauges, jobs } = await working();
    await jobs.enqueueMany("task", many(600));
    await until(() => gauges.all.now === 20, { what: "all slots are taken" });
    const [view] = await jobs.queues.limit("default", {
      limit: { max: 4 },
      by: "ada",
      why: "relay",
    });
    expect(view).toMatchObject({
      kind: null,
      key: null,
      limit: 4,
      rate: null,
      by: "ada",
      why: "relay",
    });
    // Nothing starts until all that runs is counted.
    await until(() => gauges.all.now === 0, { what: "what ran has ended" });
    gauges.all.most = 0;
    const ran = gauges.starts.length;
    await until(() => gauges.starts.length > ran + 40, { what: "it goes on", timeout: 15_000 });
    expect(gauges.all.most).toBe(4);
    await jobs.queues.limit("default", { limit: { max: 9 } });
    await until(() => gauges.all.now === 9, { what: "nine run at once" });
    await jobs.queues.limit("default", { limit: { max: 2 } });
    await until(() => gauges.all.now <= 2, { what: "two run at once" });
    gauges.all.most = 0;
    const before = gauges.starts.length;
    await until(() => gauges.starts.length > before + 10, { what: "it goes on" });
    expect(gauges.all.most).toBe(2);
    expect((await jobs.queues.limits("default"))[0]).toMatchObject({ running: expect.any(Number) });
    expect(await jobs.queues.limit("default", {})).toEqual([]);
    await until(() => gauges.all.now === 20, { what: "all slots are taken again" });
    await finished(600);
  });

  it("by key and taken away: what was set aside goes on", async () => {
    const { gauges, jobs } = await working(50);
    await jobs.enqueue("task", { tenant: "a" });
    await finished(1);
    await jobs.queues.limit("default", { kind: "task", limit: { key: "tenant", max: 1 } });
    await jobs.enqueueMany("task", many(60, 50));
    await until(async () => (await jobs.queues.limits("default"))[0]!.waiting > 10, {
      what: "some were set aside",
      timeout: 15_000,
    });
    expect(gauges.mostOfAny).toBe(1);
    await jobs.queues.limit("default", { kind: "task" });
    await finished(61);
  });

  it("holds until the code says something else, not longer", async () => {
    const worker = async (max?: number) =>
      await bench.worker([handler("task", () => {}, max ? { limit: { max } } : {})], {
        service: "app",
      });
    const max = async () => (await jobs.queues.limits("default")).map(({ limit }) => limit);
    const first = await worker(3);
    const jobs = first.get(Queue);
    await until(async () => (await max().catch(() => []))[0] === 3, { what: "the code's limit" });
    await jobs.enqueue("task", {});
    await jobs.queues.limit("default", { kind: "task", limit: { max: 8 } });
    await worker(3);
    await finished(1);
    expect(await max()).toEqual([8]);
    await worker(4);
    await until(async () => (await max())[0] === 4, { what: "the code's new limit" });
    // As long as some live that say so, it holds; workers say it once a minute.
    const none = await worker();
    await none.get(Queue).enqueue("task", {});
    await finished(2);
    expect(await max()).toEqual([4]);
    await bench.closeApps();
    await bench.sql("update jobs.limit_said set said_at = now() - interval '3 minutes'");
    const last = await worker();
    const left = async () =>
      (await last.get(Queue).queues.limits("default")).map(({ limit }) => limit);
    await until(async () => (await left()).length === 0, { what: "the code has none any more" });
  });

  it("another service that says nothing takes nothing away", async () => {
    await bench.worker([handler("task", () => {}, { limit: { max: 3 } })], { service: "one" });
    const jobs = await bench.producer();
    await jobs.enqueue("task", {});
    await finished(1);
    const two = await bench.worker([handler("other", () => {})], { service: "two" });
    await two.get(Queue).enqueue("other", {});
    await finished(2);
    expect(await jobs.queues.limits("default")).toMatchObject([{ kind: "task", limit: 3 }]);
  });

  it("another worker of the same app that says nothing takes nothing away, whenever it is started", async () => {
    const app = async () =>
      await bench.app([
        bench.root(),
        ...[handler("task", () => {}, { limit: { max: 3 } }), handler("other", () => {})].map(
          (one) =>
            JobsModule.forWorker({
              imports: [feature([one])],
              poll: "200ms",
              queues: { default: {} },
            }),
        ),
      ]);
    for (let turn = 1; turn <= 2; turn++) {
      const jobs = (await app()).get(Queue);
      await jobs.enqueue("task", {});
      await jobs.enqueue("other", {});
      await finished(2 * turn);
      expect(await jobs.queues.limits("default")).toMatchObject([{ kind: "task", limit: 3 }]);
      await bench.closeApps();
    }
  });

  it("what has moved to another service is not taken away by the one that had it", async () => {
    const declaring = handler("task", () => {}, { limit: { max: 3 } });
    const jobs = await bench.producer();
    await jobs.enqueue("task", {});
    for (const service of ["one", "two"]) {
      await bench.worker([declaring], { service });
      await until(
        async () =>
          (await bench.sql("select from jobs.limit_said where service = $1", [service])).length ===
          1,
        { what: `${service} has said it` },
      );
    }
    await finished(1);
    const one = await bench.worker([handler("other", () => {})], { service: "one" });
    await one.get(Queue).enqueue("other", {});
    await finished(2);
    expect(await jobs.queues.limits("default")).toMatchObject([{ kind: "task", limit: 3 }]);
  });
});

describe("a key that is paused", () => {
  it("starts nothing in any worker until it is resumed, and nobody else waits", async () => {
    const gauges = new Gauges();
    const Task = defineJob<{ tenant: string }>("task", { limit: { key: "tenant", max: 5 } });
    for (let n = 0; n < 2; n++) await bench.worker([handler(Task, gauges.body)]);
    const jobs = await bench.producer();
    const of = (tenant: string) => gauges.starts.filter((one) => one.tenant === tenant).length;
    const send = async () =>
      await jobs.enqueueMany(
        Task,
        Array.from({ length: 20 }, (_, n) => ({ payload: { tenant: n % 2 ? "a" : "b" } })),
      );
    await send();
    await finished(20);
    await jobs.queues.pause("default", { kind: "task", key: "a", by: "ada", why: "abuse" });
    await send();
    await finished(30);
    expect([of("a"), of("b")]).toEqual([10, 20]);
    const [view] = await jobs.queues.limits("default");
    expect(view).toMatchObject({
      waiting: 10,
      paused: [{ key: "a", by: "ada", why: "abuse", until: null, at: expect.any(Date) }],
    });
    await jobs.queues.resume("default", { kind: "task", key: "a" });
    const resumedAt = performance.now();
    await finished(40);
    expect(gauges.starts.find(({ at }) => at > resumedAt)!.at - resumedAt).toBeLessThan(1_000);
    expect((await jobs.queues.limits("default"))[0]).toMatchObject({ waiting: 0, paused: [] });
  });

  it("until a time goes on by itself", async () => {
    const gauges = new Gauges();
    const Task = defineJob<{ tenant: string }>("task", { limit: { key: "tenant", max: 5 } });
    await bench.worker([handler(Task, gauges.body)]);
    const jobs = await bench.producer();
    await jobs.enqueue(Task, { tenant: "b" });
    await finished(1);
    const until_ = new Date(Date.now() + 1_500);
    await jobs.queues.pause("default", { kind: "task", key: "a", until: until_ });
    await jobs.enqueue(Task, { tenant: "a" });
    await finished(2);
    const [started] = await bench.sql<{ at: Date }>("select max(started_at) as at from jobs.done");
    expect(started!.at.getTime()).toBeGreaterThanOrEqual(until_.getTime());
  });

  it("stays paused when its limit is taken away, and the limit goes with the pause", async () => {
    const started: string[] = [];
    const Task = defineJob<{ tenant: string }>("task");
    await bench.worker([handler(Task, ({ tenant }) => void started.push(tenant))]);
    const jobs = await bench.producer();
    await jobs.enqueue(Task, { tenant: "b" });
    await finished(1);
    await jobs.queues.limit("default", { limit: { key: "tenant", max: 5 } });
    await jobs.queues.pause("default", { key: "a", why: "legal hold" });
    await jobs.queues.limit("default", { limit: { max: 9 } });
    expect(await jobs.queues.limits("default")).toMatchObject([
      { key: null, limit: 9 },
      { key: "tenant", limit: null, rate: null, paused: [{ key: "a", why: "legal hold" }] },
    ]);
    await jobs.enqueue(Task, { tenant: "a" });
    for (let n = 0; n < 8; n++) await jobs.enqueue(Task, { tenant: "b" });
    await finished(9);
    expect(started).not.toContain("a");
    await jobs.queues.resume("default", { key: "a" });
    await finished(10);
    expect(await jobs.queues.limits("default")).toMatchObject([{ key: null, limit: 9 }]);
  });

  it("is refused where nothing says what a key is", async () => {
    await bench.worker([handler("task", () => {})]);
    const jobs = await bench.producer();
    await jobs.enqueue("task", {});
    await finished(1);
    await expect(jobs.queues.pause("default", { key: "a" })).rejects.toThrow(
      /key: expected a limit or rate with a key for this queue, .* found none/,
    );
    await jobs.queues.limit("default", {
      limit: [
        { max: 1, key: "a" },
        { max: 2, key: "b" },
      ],
    });
    await expect(jobs.queues.resume("default", { key: "x" })).rejects.toThrow(
      /keyPath: expected which key of this queue is meant \(a, b\), found none/,
    );
    await expect(jobs.queues.resume("default", { key: "x", keyPath: "c" })).rejects.toThrow(
      /\(a, b\), found "c"/,
    );
    await expect(jobs.queues.resume("default", { keyPath: "a" })).rejects.toThrow(/with key only/);
    await jobs.queues.pause("default", { key: "x", keyPath: "b" });
    expect(
      (await jobs.queues.limits("default")).map(({ key, paused }) => [key, paused.length]),
    ).toEqual([
      ["a", 0],
      ["b", 1],
    ]);
    for (const key of ["", 7, "x".repeat(513), "a\0"])
      await expect(jobs.queues.pause("default", { key } as never)).rejects.toThrow(OptionsError);
  });
});

it("a worker whose code has limits waits for a schema that has them, and runs nothing without", async () => {
  const warned: unknown[] = [];
  const warn = (...line: unknown[]) => void warned.push(line[0]);
  jest.spyOn(Logger.prototype, "warn").mockImplementation(warn);
  const jobs = await bench.producer();
  const { id } = await jobs.enqueue("task", {});
  const newer = await bench.sql("select * from jobs.migration where version >= 5");
  await bench.sql("delete from jobs.migration where version >= 5");
  await bench.worker([handler("task", () => {}, { limit: { max: 1 } })]);
  await until(() => warned.length > 0, { what: "it says so" });
  expect(await bench.state(id)).toBe("queued");
  await bench.sql(
    "insert into jobs.migration select * from json_populate_recordset(null::jobs.migration, $1)",
    [JSON.stringify(newer)],
  );
  await finished(1);
});

describe("what does not fit", () => {
  it.each([
    [{ limit: 3 }, /limit: expected an object, found 3/],
    [{ limit: {} }, /limit\.max: expected an integer 1\.\.1000000, found undefined/],
    [{ limit: { max: 0 } }, /limit\.max: expected an integer 1\.\.1000000, found 0/],
    [{ limit: { max: -1 } }, /found -1/],
    [{ limit: { max: 1.5 } }, /found 1\.5/],
    [{ limit: { max: 1, key: "" } }, /limit\.key: expected where it stands in the payload/],
    [{ limit: { max: 1, key: "a..b" } }, /limit\.key/],
    [{ limit: { max: 1, key: 7 } }, /limit\.key/],
    [{ limit: { maxx: 1, max: 1 } }, /limit\.maxx: unknown option, did you mean max\?/],
    [{ limit: [{ max: 1 }, { max: 2 }] }, /limit\[1\]: expected one limit for each key, found two/],
    [{ rate: { max: 5 } }, /rate\.per: expected the length of the window/],
    [{ rate: { max: 5, per: "soon" } }, /rate\.per: expected/],
    [{ rate: { max: 5, per: 10 } }, /rate\.per: expected/],
    [{ rate: { max: 0, per: "1s" } }, /rate\.max: expected an integer 1\.\.1000000, found 0/],
    [
      {
        rate: [
          { max: 1, per: "1s" },
          { max: 2, per: "1s" },
        ],
      },
      /rate\[1\]: expected one rate for each key/,
    ],
  ])("%j is refused where it is said", async (options, found) => {
    expect(() => defineJob("task", options as never)).toThrow(found);
    await expect(bench.worker([handler("task", () => {}, options as never)])).rejects.toThrow(
      found,
    );
    const jobs = await bench.producer();
    await jobs.enqueue("task", {});
    await expect(jobs.queues.limit("default", options as never)).rejects.toThrow(OptionsError);
    expect(await jobs.queues.limits("default")).toEqual([]);
  });

  it("queues and kinds that are not there", async () => {
    const jobs = await bench.producer();
    await jobs.enqueue("task", {});
    await expect(jobs.queues.limit("defualt", { limit: { max: 1 } })).rejects.toThrow(
      UnknownQueueError,
    );
    await expect(jobs.queues.limits("defualt")).rejects.toThrow(UnknownQueueError);
    await expect(jobs.queues.limit("default", { kind: "tusk", limit: { max: 1 } })).rejects.toThrow(
      UnknownKindError,
    );
    await expect(jobs.queues.limit("default", null as never)).rejects.toThrow(OptionsError);
  });
});
