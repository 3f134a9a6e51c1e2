import {
  type EnqueueOptions,
  type JobContext,
  JobHandler,
  JobQueue,
  KeyLockedError,
} from "nestjs-pg-jobs";
import type pg from "pg";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// A key in a stranger's open transaction keeps those waiting who want it, and nobody else of the process: all of its
// calls go through one connection.

const LATE_MS = 1_000;

let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer({ notify: false });
  await jobs.enqueue("work", {});
  await jobs.enqueue("work", {}, { key: "warm" });
  await jobs.enqueue("work", {}, { key: "warm", window: "1h" });
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.job, jobs.dedup")));

interface Stranger {
  client: pg.PoolClient;
  end(how: "commit" | "rollback"): Promise<void>;
}

/** A stranger's transaction that has enqueued the key and not ended. */
async function stranger(key: string, options: EnqueueOptions = {}): Promise<Stranger> {
  const client = await bench.client();
  await client.query("begin");
  await jobs.in(client).enqueue("work", {}, { ...options, key });
  return {
    client,
    end: async (how) => {
      await client.query(how);
      client.release();
    },
  };
}

/** How long the slowest of these calls took, one after another until `done`. */
async function slowest(done: () => boolean, call: (n: number) => Promise<unknown>) {
  let ms = 0;
  let calls = 0;
  for (; !done(); calls++) {
    const from = performance.now();
    await call(calls);
    ms = Math.max(ms, performance.now() - from);
  }
  return { ms, calls };
}

const settledOf = async (calls: readonly Promise<unknown>[]) => {
  const from = performance.now();
  return await Promise.all(
    calls.map(async (call) => {
      const error: unknown = await call.then(
        () => undefined,
        (failed: unknown) => failed,
      );
      return { error, ms: performance.now() - from };
    }),
  );
};

const sleep = async (ms: number) => await new Promise((resolve) => setTimeout(resolve, ms));

/** They have met the lock, and been told from others. */
const met = async () => await sleep(400);

const ways: [string, EnqueueOptions][] = [
  ["plain", {}],
  ["window", { window: "1h" }],
  ["onConflict", { onConflict: "replace" }],
];

describe.each(ways)("while a stranger has a key that calls wait for: %s", (_, options) => {
  it("all other calls of the process go on, and those are refused after two seconds", async () => {
    const held = await stranger("held", options);
    let over = false;
    const waiting = settledOf(
      Array.from({ length: 5 }, (_v, n) => jobs.enqueue("work", n, { ...options, key: "held" })),
    ).finally(() => (over = true));
    const done = () => over;
    const others = await Promise.all([
      slowest(done, async (n) => await jobs.enqueue("work", n)),
      slowest(done, async (n) => await jobs.enqueue("work", n, { key: `a ${n}` })),
      slowest(done, async (n) => await jobs.enqueue("work", n, { ...options, key: `b ${n}` })),
      slowest(
        done,
        async (n) => await jobs.enqueueMany("work", [n, { payload: n, key: `c ${n}` }]),
      ),
    ]);
    for (const { ms, calls } of others) {
      expect(ms).toBeLessThan(LATE_MS);
      expect(calls).toBeGreaterThan(20);
    }
    for (const { error, ms } of await waiting) {
      expect(error).toBeInstanceOf(KeyLockedError);
      expect(ms).toBeGreaterThan(1_900);
      expect(ms).toBeLessThan(3_000);
    }
    await held.end("rollback");
  });

  it("calls that were in one statement with them are answered at once", async () => {
    const held = await stranger("held", options);
    const calls = Array.from({ length: 100 }, (_v, n) =>
      jobs.enqueue("work", n, { ...options, key: n === 50 ? "held" : `${n}` }),
    );
    const [locked] = calls.splice(50, 1);
    for (const { error, ms } of await settledOf(calls)) {
      expect(error).toBeUndefined();
      expect(ms).toBeLessThan(LATE_MS);
    }
    await held.end("rollback");
    await expect(locked).resolves.toMatchObject({ deduplicated: false });
  });

  it("they are answered soon after it was committed or rolled back, each for its own key", async () => {
    const [one, two, stays] = [
      await stranger("one", options),
      await stranger("two", options),
      await stranger("stays", options),
    ];
    const call = async (key: string) => await jobs.enqueue("work", {}, { ...options, key });
    const waiting = ["one", "two", "stays", "one", "two"].map(call);
    const refused = settledOf([waiting[2]!]);
    await met();
    await Promise.all([one.end("commit"), two.end("rollback")]);
    const from = performance.now();
    const [first, second, again, third] = await Promise.all([
      waiting[0]!,
      waiting[1]!,
      waiting[3]!,
      waiting[4]!,
    ]);
    expect(performance.now() - from).toBeLessThan(LATE_MS + 200);
    expect([first, second, again, third].map(({ deduplicated }) => deduplicated)).toEqual([
      true,
      false,
      true,
      true,
    ]);
    expect(third.id).toBe(second.id);
    expect((await refused)[0]!.error).toBeInstanceOf(KeyLockedError);
    await stays.end("rollback");
  });

  it("a list with that key waits as a whole, and is made as a whole or not at all", async () => {
    const held = await stranger("held", options);
    const list = async (...queues: string[]) =>
      await jobs.enqueueMany(
        "work",
        queues.flatMap((queue) => [
          { payload: {}, queue },
          { payload: {}, queue, key: `of ${queues.join()}` },
          { payload: {}, queue, key: "held", ...options },
        ]),
      );
    await jobs.enqueue("work", {}, { queue: "second" });
    await bench.sql("delete from jobs.job");
    let over = false;
    const lists = settledOf([list("default"), list("default", "second")]).finally(
      () => (over = true),
    );
    const plain = await slowest(
      () => over,
      async (n) => await jobs.enqueue("work", n, { queue: "third" }),
    );
    for (const { error } of await lists) expect(error).toBeInstanceOf(KeyLockedError);
    expect(plain.ms).toBeLessThan(LATE_MS);
    expect(await bench.states()).toEqual({ queued: plain.calls });
    const later = [list("default"), list("default", "second")];
    await met();
    await held.end("commit");
    const answers = await Promise.all(later);
    expect(answers.map((all) => all.map(({ deduplicated }) => deduplicated))).toEqual([
      [false, false, true],
      [false, false, true, false, false, false],
    ]);
  });
});

describe("a key that is held", () => {
  it("takes its calls in their order: the last one wins", async () => {
    const { id } = await jobs.enqueue("work", 0, { key: "k" });
    const client = await bench.client();
    await client.query("begin");
    await client.query(`select from ${bench.schema}.job where key = 'k' for update`);
    const replace = async (n: number) =>
      await jobs.enqueue("work", n, { key: "k", onConflict: "replace" });
    const calls = [replace(1), replace(2)];
    await met();
    calls.push(replace(3));
    await sleep(100);
    const releasing = client.query("commit");
    calls.push(replace(4));
    await releasing;
    calls.push(replace(5));
    client.release();
    for (const answer of await Promise.all(calls))
      expect(answer).toEqual({ id, deduplicated: true, replaced: true });
    expect((await jobs.get(id))!.payload).toBe(5);
  });

  it("by many strangers' transactions at once costs the others no more", async () => {
    const client = await bench.client();
    await client.query("begin");
    const keys = Array.from({ length: 60 }, (_, n) => ({ payload: n, key: `held ${n}` }));
    await jobs.in(client).enqueueMany("work", keys);
    let over = false;
    const waiting = settledOf(
      keys.map(async ({ payload, key }) => await jobs.enqueue("work", payload, { key })),
    ).finally(() => (over = true));
    const plain = await slowest(
      () => over,
      async (n) => await jobs.enqueue("work", n),
    );
    expect(plain.ms).toBeLessThan(LATE_MS);
    for (const { error, ms } of await waiting) {
      expect(error).toBeInstanceOf(KeyLockedError);
      expect(ms).toBeLessThan(4_000);
    }
    await client.query("rollback");
    client.release();
  });

  it("is waited for as the caller's own transaction says, which keeps its settings", async () => {
    const client = await bench.client();
    await client.query("begin; set local lock_timeout = '1234ms'");
    const within = jobs.in(client);
    await within.enqueue("work", {}, { key: "one" });
    await within.enqueue("work", {}, { key: "two", window: "1h" });
    await within.enqueueMany("work", [{ payload: {}, key: "three" }, {}]);
    expect((await client.query("show lock_timeout")).rows).toEqual([{ lock_timeout: "1234ms" }]);
    await client.query("rollback");
    client.release();
  });

  it("does not keep close() from waiting for its calls", async () => {
    const app = await bench.app([bench.root({ notify: false })]);
    const closing = app.get(JobQueue);
    const held = await stranger("held");
    const call = closing.enqueue("work", {}, { key: "held" });
    await met();
    const closed = closing.close();
    await held.end("commit");
    await expect(call).resolves.toMatchObject({ deduplicated: true });
    await closed;
  });
});

it.each(ways)("calls of a running attempt do not stall its process: %s", async (_, options) => {
  const answers: Promise<unknown>[] = [];
  let begun = false;
  class Handler {
    @JobHandler("parent")
    async handle(_payload: unknown, job: JobContext) {
      begun = true;
      const answer = job.enqueue("work", {}, { ...options, key: "held" });
      answers.push(answer);
      await answer.catch(() => undefined);
    }
  }
  const held = await stranger("held", options);
  const app = await bench.worker([Handler]);
  const mine = app.get(JobQueue);
  await mine.enqueue("parent", {});
  await until(() => begun, { what: "the attempt runs" });
  let over = false;
  const refused = settledOf(answers).finally(() => (over = true));
  const plain = await slowest(
    () => over,
    async (n) => await mine.enqueue("work", n),
  );
  expect((await refused)[0]!.error).toBeInstanceOf(KeyLockedError);
  expect(plain.ms).toBeLessThan(LATE_MS);
  expect(plain.calls).toBeGreaterThan(20);
  await held.end("rollback");
  await app.close();
});
