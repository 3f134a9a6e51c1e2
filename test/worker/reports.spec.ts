import { jest } from "@jest/globals";
import { Logger } from "@nestjs/common";
import { type JobContext, JobInspector, JobQueue } from "nestjs-pg-jobs";
import { Attempt } from "../../libs/jobs/src/worker/attempt.js";
import { Reports } from "../../libs/jobs/src/worker/reports.js";
import { Settler } from "../../libs/jobs/src/worker/settler.js";
import { ClaimingHand, idleHandler } from "../support/claims.js";
import { firstRelease } from "../support/first-release.js";
import { Bench } from "../support/harness.js";
import { Gate, handler, payloads, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

// job.progress() and job.log(): what a running job says of itself, seen by others.

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => await bench.close());

const texts = async (inspector: JobInspector, id: string) =>
  (await inspector.logs(id, { limit: 1_000 })).items.map(({ text }) => text);
/** How many statements have written reports. */
const rowVersions = async () =>
  Number(
    (
      await bench.sql<{ n: string }>(
        `select n_tup_ins + n_tup_upd as n from pg_stat_user_tables
         where schemaname = '${bench.schema}' and relname = 'progress'`,
      )
    )[0]!.n,
  );

describe("a handler that says how far it is", () => {
  it("is seen while it runs, and its last words stay with the finished job", async () => {
    const [middle, end] = [new Gate(), new Gate()];
    const app = await bench.worker([
      handler("work", async (_, job) => {
        job.progress(10, "begun");
        job.log("one");
        await middle.opened;
        job.log("two");
        job.progress(60);
        await end.opened;
        job.progress(100, "all");
        job.log("three");
        return "done";
      }),
    ]);
    const inspector = app.get(JobInspector);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    await until(async () => (await inspector.progress(id))?.percent === 10, { what: "10 %" });
    expect(await inspector.progress(id)).toMatchObject({ note: "begun", attempt: 1 });
    expect(await texts(inspector, id)).toEqual(["one"]);
    middle.open();
    await until(async () => (await inspector.progress(id))?.percent === 60, { what: "60 %" });
    end.open();
    await reached(bench, id, "succeeded");
    expect(await texts(inspector, id)).toEqual(["one", "two", "three"]);
    expect(await inspector.get(id)).toMatchObject({
      state: "succeeded",
      progress: { percent: 100, note: "all", attempt: 1 },
    });
  });

  it("a hundred thousand times costs a row a second, and no error however odd it is", async () => {
    let seconds = 0;
    const app = await bench.worker([
      handler("work", async (_, job) => {
        const from = performance.now();
        let n = 0;
        while (performance.now() - from < 2_500 || n < 100_000) {
          for (let i = 0; i < 10_000; i++) job.progress((n++ / 1e6) % 100, `note ${n}`);
          await new Promise((resolve) => setImmediate(resolve));
        }
        for (const odd of [Number.NaN, -1, "x", null, undefined, {}]) {
          job.progress(odd as number, odd as string);
          job.log(odd as string);
        }
        job.progress(101, "a\0\ud800");
        seconds = (performance.now() - from) / 1_000;
        return n;
      }),
    ]);
    const inspector = app.get(JobInspector);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    const { result } = await reached(bench, id, "succeeded");
    expect(Number(result)).toBeGreaterThanOrEqual(100_000);
    expect(await inspector.progress(id)).toMatchObject({ percent: 100, note: "a\ufffd\ufffd" });
    expect(await texts(inspector, id)).toHaveLength(6);
    await until(async () => (await rowVersions()) > 0, { what: "statistics" });
    // And one before its settle.
    expect(await rowVersions()).toBeLessThanOrEqual(seconds + 2);
  });

  it("is heard whatever becomes of the attempt; the next one goes on", async () => {
    const app = await bench.worker([
      handler("work", (_, job) => {
        job.log(`attempt ${job.attempt}`);
        job.progress(job.attempt * 10);
        if (job.attempt < 3) throw new Error("boom");
      }),
    ]);
    const inspector = app.get(JobInspector);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    for (const attempt of [1, 2]) {
      await reached(bench, id, "queued", { attempt });
      expect((await inspector.progress(id))!.percent).toBe(attempt * 10);
      await bench.age(id, "1 hour");
    }
    await reached(bench, id, "succeeded");
    const { items } = await inspector.logs(id);
    expect(items.map(({ attempt, line, text }) => [attempt, line, text])).toEqual([
      [1, 1, "attempt 1"],
      [2, 1, "attempt 2"],
      [3, 1, "attempt 3"],
    ]);
  });

  it("is heard before its own transaction ends it", async () => {
    const app = await bench.worker([
      handler("work", async (_, job) => {
        job.log("outside");
        return await job.transaction(async (tx) => {
          job.log("inside");
          job.progress(99);
          await tx.query("select 1");
          return "done";
        });
      }),
    ]);
    const inspector = app.get(JobInspector);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    await reached(bench, id, "succeeded");
    expect(await texts(inspector, id)).toEqual(["outside", "inside"]);
    expect(await inspector.progress(id)).toMatchObject({ percent: 99 });
  });

  it("keeps a bounded log, with a last line that says so", async () => {
    const app = await bench.worker([
      handler("work", (_, job) => {
        for (let n = 0; n < 5_000; n++) job.log(`line ${n}`);
      }),
    ]);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    await reached(bench, id, "succeeded");
    const [row] = await bench.sql(
      "select count(*)::int as n, max(line) as last, max(text) filter (where line = 1001) as text from jobs.job_log",
    );
    expect(row).toEqual({ n: 1_001, last: 1_001, text: expect.stringMatching(/^The log is full/) });
  });

  it("among hundreds that do is heard, each by its own", async () => {
    const app = await bench.worker(
      [
        handler("work", (payload, job) => {
          job.progress((payload as { n: number }).n % 100);
          job.log(`n ${(payload as { n: number }).n}`);
        }),
      ],
      { queues: { default: { concurrency: 300 } } },
    );
    const count = 1_000;
    const all = await app.get(JobQueue).enqueueMany(
      "work",
      Array.from({ length: count }, (_, n) => ({ n })),
    );
    await until(async () => (await bench.states()).succeeded === count, {
      what: "all",
      timeout: 50_000,
    });
    const rows = await bench.sql<{ id: string; percent: number; text: string }>(
      `select s.id, p.percent, l.text from jobs.job_status s join jobs.progress p on p.job_id = s.number
       join jobs.job_log l on l.job_id = s.number order by s.number`,
    );
    expect(rows).toEqual(all.map(({ id }, n) => ({ id, percent: n % 100, text: `n ${n}` })));
  });
});

it("what says nothing of itself is settled without a statement for it", async () => {
  const hand = new ClaimingHand(bench);
  const session = bench.session("settle");
  let calls = 0;
  const troubles: string[] = [];
  const reports = new Reports({
    session: { run: async (...call) => (calls++, await session.run(...call)) },
    ready: async () => true,
    makePartitions: () => Promise.reject(new Error("they are there")),
    trouble: (message) => troubles.push(message),
  });
  const lost: string[] = [];
  const settler = new Settler(
    session,
    { settled: () => {}, lost: ({ id }) => lost.push(id), trouble: () => {}, failing: () => {} },
    1_000_000,
    undefined,
    reports,
  );
  const jobs = await bench.producer();
  await jobs.enqueueMany("job", payloads(20));
  const all = (await hand.claim()).map((claim) => {
    const attempt = new Attempt(claim, idleHandler("job"), "default", {
      logger: () => new Logger(),
      enqueue: () => Promise.reject(new Error("it enqueues nothing")),
      transaction: () => Promise.reject(new Error("it has no transaction")),
      reported: (one) => reports.add(one),
    });
    attempt.phase = "running";
    return attempt;
  });
  const settle = async (some: Attempt[]) => {
    for (const attempt of some) settler.add(attempt, { verb: "succeed", result: null });
    await settler.idle();
  };
  await settle(all.slice(0, 10));
  expect(calls).toBe(0);
  // One of them does: one statement, for it alone.
  all[10]!.log("said");
  await settle(all.slice(10));
  expect(calls).toBe(1);
  expect(await bench.sql("select text from jobs.job_log")).toEqual([{ text: "said" }]);
  expect(await bench.states()).toEqual({ succeeded: 20 });
  expect([...lost, ...troubles]).toEqual([]);
  reports.stop();
  await hand.close();
});

describe("a body that is not the current attempt", () => {
  it("says nothing after its timeout, nor after its job went to another", async () => {
    const gate = new Gate();
    const contexts: JobContext[] = [];
    const app = await bench.worker([
      handler("work", async (_, job) => {
        contexts.push(job);
        await gate.opened;
      }),
    ]);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    await reached(bench, id, "running");
    await until(() => contexts.length === 1, { what: "it runs" });
    // Another worker has it now.
    await bench.sql("update jobs.job set attempt = attempt + 1, worker = worker + 1000");
    contexts[0]!.log("late");
    contexts[0]!.progress(50);
    gate.open();
    await until(async () => (await app.get(JobInspector).logs(id)).items.length === 0, {
      what: "nothing is written",
    });
    // The settle has found it lost by now, and what was said before it has been tried.
    await until(() => contexts[0]!.signal.aborted, { what: "it has been told" });
    contexts[0]!.log("later still");
    expect(await bench.sql("select 1 from jobs.job_log")).toEqual([]);
    expect(await bench.sql("select 1 from jobs.progress")).toEqual([]);
  });
});

describe("while the database is away", () => {
  it("lines are kept, and written when it is back: each once, in order", async () => {
    const { proxy, url } = await bench.line();
    const [away, end] = [new Gate(), new Gate()];
    const app = await bench.worker(
      [
        handler("work", async (_, job) => {
          job.log("before");
          await away.opened;
          for (let n = 0; n < 5; n++) job.log(`away ${n}`);
          job.progress(42);
          await end.opened;
          job.log("back");
        }),
      ],
      {},
      { connection: { url } },
    );
    const inspector = (await bench.app([bench.root()])).get(JobInspector);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    await until(async () => (await texts(inspector, id)).length === 1, { what: "the first line" });
    proxy.setMode("reset");
    away.open();
    const from = performance.now();
    await until(() => performance.now() - from > 2_500, { what: "it was away for two writings" });
    expect(await texts(inspector, id)).toEqual(["before"]);
    proxy.setMode("pass");
    await until(async () => (await inspector.progress(id))?.percent === 42, {
      what: "it is written",
      timeout: 20_000,
    });
    end.open();
    await reached(bench, id, "succeeded", { timeout: 20_000 });
    expect(await texts(inspector, id)).toEqual([
      "before",
      ...[0, 1, 2, 3, 4].map((n) => `away ${n}`),
      "back",
    ]);
    // When they were said, not when they were written.
    const { items } = await inspector.logs(id);
    const gap = Date.parse(items[6]!.at) - Date.parse(items[5]!.at);
    expect(gap).toBeGreaterThan(1_500);
  });

  it("whatever cannot be written keeps no job from ending", async () => {
    const app = await bench.worker([
      handler("work", (_, job) => {
        job.log("x");
        job.progress(1);
      }),
    ]);
    await bench.sql("alter table jobs.job_log add constraint nothing check (text = '') not valid");
    await bench.sql("alter table jobs.progress rename to elsewhere");
    const { id } = await app.get(JobQueue).enqueue("work", {});
    expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 1, failures: 0 });
  });
});

it("a logger that throws when it is told of it keeps no job from ending either", async () => {
  const gate = new Gate();
  const said: string[] = [];
  const app = await bench.worker([
    handler("work", async (_, job) => {
      job.progress(1);
      await gate.opened;
      job.progress(2);
    }),
  ]);
  const warn = jest.spyOn(Logger.prototype, "warn").mockImplementation((message: string) => {
    said.push(message);
    throw new Error("no room on the disk");
  });
  try {
    await bench.sql("alter table jobs.progress rename to elsewhere");
    const { id } = await app.get(JobQueue).enqueue("work", {});
    await until(() => said.some((one) => one.includes("schema is gone")), { what: "it is told" });
    gate.open();
    await reached(bench, id, "succeeded");
  } finally {
    warn.mockRestore();
    await bench.sql("alter table jobs.elsewhere rename to progress");
  }
});

it("on a schema of the release before, jobs run, and are heard from once it is brought up to date", async () => {
  const old = await firstRelease();
  try {
    const [quick, slow] = [new Gate(), new Gate()];
    const app = await old.worker([
      handler("work", async (_, job) => {
        job.log("x");
        job.progress(1);
        await quick.opened;
        return "done";
      }),
      handler("slow", async (_, job) => {
        job.log("y");
        await slow.opened;
      }),
    ]);
    const jobs = app.get(JobQueue);
    const [{ id }, later] = [await jobs.enqueue("work", {}), await jobs.enqueue("slow", {})];
    await reached(old, later.id, "running");
    quick.open();
    expect(await reached(old, id, "succeeded")).toMatchObject({ result: "done" });
    await old.migrate();
    // What was said before is kept within its bound, and written.
    const inspector = app.get(JobInspector);
    await until(async () => (await texts(inspector, later.id)).includes("y"), {
      what: "it is written",
      timeout: 40_000,
    });
    expect(await texts(inspector, id)).toEqual([]);
    slow.open();
    await reached(old, later.id, "succeeded");
  } finally {
    await old.close();
  }
});

it("lines of a day without a partition make it", async () => {
  const gate = new Gate();
  const app = await bench.worker([
    handler("work", async (_, job) => {
      await gate.opened;
      job.log("x");
    }),
  ]);
  const { id } = await app.get(JobQueue).enqueue("work", {});
  await reached(bench, id, "running");
  const today = new Date().toISOString().slice(0, 10).replaceAll("-", "");
  await bench.sql(`drop table jobs.job_log_${today}`);
  gate.open();
  await reached(bench, id, "succeeded");
  expect(await texts(app.get(JobInspector), id)).toEqual(["x"]);
});
