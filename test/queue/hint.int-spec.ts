import { JobQueue } from "nestjs-pg-jobs";
import type pg from "pg";
import { DataSource } from "typeorm";
import { Bench, behindPooler } from "../support/harness.js";
import { until } from "../support/until.js";

// Workers of other processes hear of a job by NOTIFY: after the commit, never inside the caller's transaction.

/** At once, on a machine that may stand still for a while. */
const SOON_MS = 5_000;

let bench: Bench;
let jobs: JobQueue;
let dataSource: DataSource;
let listener: pg.PoolClient;
const all: { payload: string; at: number }[] = [];
let queue: string;
let queueId: string;

beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
  dataSource = await new DataSource({ type: "postgres", url: bench.url }).initialize();
  listener = await bench.client();
  await listener.query(`listen "${bench.schema}:wake"`);
  listener.on("notification", ({ payload = "" }) => all.push({ payload, at: performance.now() }));
});
afterAll(async () => {
  listener.release(true);
  await dataSource.destroy();
  await bench.close();
});
beforeEach(async () => {
  queue = `queue-${Math.random()}`;
  queueId = (await jobs.enqueue("work", {}, { queue, delay: "1h" })).id.split("-")[0]!;
});

/** When the queue of this test was named. */
const heard = () => all.filter(({ payload }) => payload === queueId).map(({ at }) => at);
const word = async (after = 0) =>
  await until(() => heard().find((at) => at > after), { every: 2, what: "a hint" });

describe("a hint", () => {
  it("follows an enqueue at once, and names the queue", async () => {
    await jobs.enqueue("work", {}, { queue });
    const told = performance.now();
    expect((await word()) - told).toBeLessThan(SOON_MS);
  });

  it("comes once for many calls in a row, and once more after the last", async () => {
    const calls = Array.from({ length: 300 }, async () => jobs.enqueue("work", {}, { queue }));
    await Promise.all(calls);
    // Whether these were one statement or several: this one comes later.
    await jobs.enqueue("work", {}, { queue });
    await until(() => heard().length >= 2, { what: "the trailing hint" });
    expect(heard().length).toBeLessThan(8);
  });

  it("comes when a delayed job is due, not before", async () => {
    const called = performance.now();
    await jobs.enqueue("work", {}, { queue, delay: 300 });
    expect((await word()) - called).toBeGreaterThan(290);
  });

  it("comes when each of the jobs of one call is due", async () => {
    const called = performance.now();
    await jobs.enqueueMany(
      "work",
      [0, 300, 600].map((delay) => ({ payload: {}, delay })),
      { queue },
    );
    await word(called + 300);
    await word(called + 600);
  });

  it("does not come for a duplicate, nor for a job that is far away", async () => {
    await jobs.enqueue("work", {}, { queue, key: "k", delay: "1h" });
    await jobs.enqueue("work", {}, { queue, key: "k" });
    await jobs.enqueue("work", {}, { queue, delay: "2.1s" });
    const due = performance.now() + 200;
    await jobs.enqueue("work", {}, { queue, delay: 200 });
    await word(due);
    expect(heard()).toHaveLength(1);
  });

  it("follows the commit of a TypeORM transaction, not the call", async () => {
    let committed = 0;
    await dataSource.transaction(async (em) => {
      await jobs.in(em).enqueue("work", {}, { queue });
      await em.query("select pg_sleep(0.7)");
      expect(heard()).toEqual([]);
      committed = performance.now();
    });
    expect((await word(committed)) - committed).toBeLessThan(SOON_MS);
  });

  it("follows the outer commit when the job was enqueued under a savepoint", async () => {
    let committed = 0;
    await dataSource.transaction(async (em) => {
      await em.transaction(async (inner) => await jobs.in(inner).enqueue("work", {}, { queue }));
      const failed = em.transaction(async () => {
        throw new Error("this savepoint only");
      });
      await expect(failed).rejects.toThrow("this savepoint only");
      await em.query("select pg_sleep(0.1)");
      committed = performance.now();
    });
    await word(committed);
    expect(heard()).toHaveLength(1);
  });

  it("comes when a delayed job of a TypeORM transaction is due: its delay counts from the call", async () => {
    let called = 0;
    await dataSource.transaction(async (em) => {
      called = performance.now();
      await jobs.in(em).enqueue("work", {}, { queue, delay: 1_500 });
      await em.query("select pg_sleep(1)");
    });
    const after = (await word()) - called;
    expect(after).toBeGreaterThan(1_490);
    expect(after).toBeLessThan(2_400);
  });

  it("does not follow a rollback of TypeORM", async () => {
    const call = dataSource.transaction(async (em) => {
      await jobs.in(em).enqueue("work", {}, { queue });
      throw new Error("rollback");
    });
    await expect(call).rejects.toThrow("rollback");
    const due = performance.now() + 200;
    await jobs.enqueue("work", {}, { queue, delay: 200 });
    await word(due);
    expect(heard()).toHaveLength(1);
  });

  it("comes soon after the commit of a pg client's transaction", async () => {
    const client = await bench.client();
    await client.query("begin");
    await jobs.in(client).enqueue("work", {}, { queue });
    await client.query("select pg_sleep(0.7)");
    expect(heard()).toEqual([]);
    const committed = performance.now();
    await client.query("commit");
    client.release();
    expect((await word()) - committed).toBeLessThan(SOON_MS);
  });

  it("comes soon after a commit that nobody tells of", async () => {
    const client = await bench.client();
    await client.query("begin");
    // The words go 5, 50 and 500 ms after the call.
    const called = performance.now();
    const stranger = {
      query: async (text: string, values?: unknown[]) => client.query(text, values),
    };
    await jobs.in(stranger).enqueue("work", {}, { queue });
    await client.query("commit");
    const committed = performance.now();
    client.release();
    expect((await word(called + 400)) - committed).toBeLessThan(SOON_MS);
  });

  it("comes when a job of a pg client's transaction is due, which was committed before", async () => {
    const client = await bench.client();
    await client.query("begin");
    const called = performance.now();
    // Far later than the words that follow any call.
    await jobs.in(client).enqueue("work", {}, { queue, delay: 900 });
    await jobs.in(client).enqueue("work", {}, { queue, delay: "2.1s" });
    await client.query("commit");
    client.release();
    expect((await word()) - called).toBeGreaterThan(890);
    expect(heard()).toHaveLength(1);
  });

  it("is never sent inside the caller's transaction", async () => {
    const client = await bench.client();
    // Whoever listens hears from which process a word comes.
    const from: number[] = [];
    client.on("notification", ({ processId }) => from.push(processId));
    await client.query(`listen "${bench.schema}:wake"`);
    const [own] = (await client.query("select pg_backend_pid() as pid")).rows;
    await client.query("begin");
    await jobs.in(client).enqueue("work", {}, { queue });
    await jobs.in(client).enqueueMany("fresh", [{}, {}], { queue: `fresh ${queue}` });
    await client.query("commit");
    await word();
    await until(() => from.length, { what: "the client itself hears of it" });
    expect(from).not.toContain(own.pid);
    client.release(true);
  });

  it("is not sent at all when notify is off", async () => {
    const silent = await bench.producer({ notify: false });
    await silent.enqueue("work", {}, { queue });
    await dataSource.transaction(async (em) => await silent.in(em).enqueue("work", {}, { queue }));
    const due = performance.now() + 200;
    await jobs.enqueue("work", {}, { queue, delay: 200 });
    await word(due);
    expect(heard()).toHaveLength(1);
  });
});

describe("a hint that was sent with an insert", () => {
  it("comes again when the connection was lost and the insert had to be repeated", async () => {
    const { proxy, url } = await bench.line();
    const producer = await bench.producer({ connection: { url } });
    await producer.enqueue("work", {}, { queue, delay: "1h" });
    proxy.setMode("deaf");
    const call = producer.enqueue("work", {}, { queue });
    await until(() => proxy.held > 0, { what: "the insert is on the line" });
    proxy.resetAll();
    proxy.setMode("pass");
    await call;
    const answered = performance.now();
    await word(answered);
  });
});

describe("a producer that closes", () => {
  it("says before what it would have said a little later", async () => {
    const app = await bench.app([bench.root()]);
    const producer = app.get(JobQueue);
    // The first one is told at once, the second one is to wait for the next 10 ms.
    await producer.enqueue("work", {}, { queue });
    await producer.enqueue("work", {}, { queue });
    await app.close();
    await until(() => heard().length === 2, { what: "the second hint" });
  });
});

// Behind a pooler it goes by itself, after the answer.
(behindPooler ? describe.skip : describe)("a hint of a quiet queue", () => {
  it("goes right behind the insert, before its answer has come", async () => {
    const { proxy, url } = await bench.line();
    const producer = await bench.producer({ connection: { url } });
    // Connected, and its lane known.
    await producer.enqueue("work", {}, { queue, delay: "1h" });
    proxy.muteFrom("enqueue");
    const call = producer.enqueue("work", {}, { queue });
    await word();
    const heldUp = proxy.held > 0;
    proxy.setMode("pass");
    await call;
    expect(heldUp).toBe(true);
    // It was the hint of this call: another one would come 10 ms later.
    const due = performance.now() + 200;
    await jobs.enqueue("work", {}, { queue, delay: 200 });
    await word(due);
    expect(heard()).toHaveLength(2);
  });

  it("behind an insert that failed does no harm, and the next call has one of its own", async () => {
    await bench.sql("alter table jobs.job add constraint no_nine check (payload <> '9')");
    try {
      await expect(jobs.enqueue("work", 9, { queue })).rejects.toThrow();
    } finally {
      await bench.sql("alter table jobs.job drop constraint no_nine");
    }
    await word();
    const called = performance.now();
    await jobs.enqueue("work", {}, { queue });
    await word(called);
  });
});
