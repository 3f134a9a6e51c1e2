import { setTimeout as sleep } from "node:timers/promises";
import { jest } from "@jest/globals";
import { type INestApplicationContext, Logger } from "@nestjs/common";
import {
  Events,
  JobCancelledError,
  type JobContext,
  type JobEvent,
  JobQueue,
  bury,
  fixed,
  snooze,
} from "nestjs-pg-jobs";
import { DataSource } from "typeorm";
import { applyWithin } from "../../libs/jobs/src/store/migrations/migrate.js";
import { awake } from "../support/awake.js";
import { behindPooler, Bench } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

// A running job hears of its cancel by its signal, and ends by what it makes of it.

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.open();
});
afterEach(async () => await bench.close());

const aborted = (job: JobContext): Promise<unknown> =>
  new Promise((resolve) => {
    const done = () => resolve(job.signal.reason);
    if (job.signal.aborted) done();
    else job.signal.addEventListener("abort", done, { once: true });
  });
const rows = async () => await bench.sql("select * from jobs.control");
const errors = async () =>
  await bench.sql<{ error: object }>("select error from jobs.attempt_error");
const events = (app: INestApplicationContext): JobEvent[] => {
  const told: JobEvent[] = [];
  app.get(Events).on(["cancelled", "died", "lost", "started"], (event) => told.push(event));
  return told;
};
const told = (all: readonly JobEvent[]) =>
  all.map(({ event }) => event).filter((event) => event !== "started");

/** A worker whose one job has reached its body; `end` says what that does once its signal has aborted. */
async function running(
  end: (reason: unknown, job: JobContext) => unknown,
  options: { attempts?: number; timeout?: number } = {},
) {
  const reasons: unknown[] = [];
  const app = await bench.worker([
    handler(
      "work",
      async (_, job) => {
        const reason = await aborted(job);
        reasons.push(reason);
        return await end(reason, job);
      },
      options,
    ),
  ]);
  const all = events(app);
  const jobs = app.get(JobQueue);
  const { id } = await jobs.enqueue("work", {});
  await until(() => all.some(({ event }) => event === "started"), { what: "it runs" });
  return { app, jobs, id, reasons, all };
}

describe("a body whose signal has aborted because of a cancel", () => {
  const ends: Record<string, [(reason: unknown) => unknown, state: string, kept: number]> = {
    "throws the reason": [(reason) => Promise.reject(reason as Error), "cancelled", 0],
    "throws what Node makes of it": [
      async () =>
        await sleep(1_000, undefined, { signal: AbortSignal.abort(new JobCancelledError("1-1")) }),
      "cancelled",
      0,
    ],
    "throws another error": [() => Promise.reject(new Error("boom")), "cancelled", 1],
    "throws nothing at all": [
      () => {
        // oxlint-disable-next-line typescript/only-throw-error -- people do
        throw undefined;
      },
      "cancelled",
      1,
    ],
    snoozes: [() => snooze(1), "cancelled", 0],
    succeeds: [() => "all the same", "succeeded", 0],
    "is buried": [() => bury("no use"), "dead", 1],
  };

  // In its only attempt: it is no dead letter because of that.
  it.each(Object.keys(ends))("and %s", async (how) => {
    const [end, state, kept] = ends[how]!;
    const { jobs, id, reasons, all } = await running(end, { attempts: 1 });
    expect(
      await awake(jobs.cancel(id).then(async () => await until(() => reasons.length))),
    ).toBeLessThan(1_000);
    expect(reasons).toEqual([
      expect.objectContaining({ id, name: "JobCancelledError", code: "CANCELLED" }),
    ]);
    await reached(bench, id, state);
    expect(await errors()).toHaveLength(kept);
    const event = { cancelled: ["cancelled"], dead: ["died"] }[state] ?? [];
    await until(() => told(all).length >= event.length, { what: "observers are told" });
    expect(told(all)).toEqual(event);
    await until(async () => (await rows()).length === 0, { what: "the row is gone" });
  });

  it("and goes on is settled by what it returns, however often it is cancelled", async () => {
    const gate = new Gate();
    const { jobs, id, reasons } = await running(async () => {
      await gate.opened;
      return "late";
    });
    for (let n = 0; n < 3; n++) {
      expect(await jobs.cancel(id)).toBe("requested");
      await until(async () => reasons.length === 1 && (await rows()).length === 0);
    }
    expect(await bench.state(id)).toBe("running");
    gate.open();
    await reached(bench, id, "succeeded");
    expect(await jobs.cancel(id)).toBe("not-cancellable");
    expect(await rows()).toEqual([]);
  });

  it("and overruns its timeout is cancelled, not dead; its slot stays taken", async () => {
    const gate = new Gate();
    const { jobs, id, reasons } = await running(() => gate.opened, {
      attempts: 1,
      timeout: 1_500,
    });
    await jobs.cancel(id);
    await until(() => reasons.length);
    await reached(bench, id, "cancelled");
    expect(await errors()).toEqual([
      { error: expect.objectContaining({ name: "JobTimeoutError" }) },
    ]);
    gate.open();
  });
});

it("a signal that is asked for later has aborted by then", async () => {
  const gate = new Gate();
  let seen: unknown;
  const app = await bench.worker([
    handler("work", async (_, job) => {
      await gate.opened;
      seen = job.signal.aborted && job.signal.reason;
      job.signal.throwIfAborted();
    }),
  ]);
  const jobs = app.get(JobQueue);
  const { id } = await jobs.enqueue("work", {});
  await reached(bench, id, "running");
  await jobs.cancel(id);
  // Its row is gone once it is heeded.
  await until(async () => (await rows()).length === 0);
  gate.open();
  await reached(bench, id, "cancelled");
  expect(seen).toBeInstanceOf(JobCancelledError);
});

it("a claimed job that waits for a slot is not started", async () => {
  const gate = new Gate();
  const started: string[] = [];
  const app = await bench.worker(
    [
      handler("work", async (_, job) => {
        started.push(job.id);
        await gate.opened;
      }),
    ],
    { queues: { default: { concurrency: 1, prefetch: 3 } } },
  );
  const all = events(app);
  const jobs = app.get(JobQueue);
  const made = await jobs.enqueueMany("work", [{}, {}, {}]);
  await until(async () => (await bench.states()).running === 3 && started.length === 1, {
    what: "all are claimed, and one has begun",
  });
  const waits = made.find(({ id }) => !started.includes(id))!;
  expect(await jobs.cancel(waits.id)).toBe("requested");
  await reached(bench, waits.id, "cancelled");
  await until(() => told(all).length > 0);
  gate.open();
  await until(async () => (await bench.states()).succeeded === 2);
  expect(started).not.toContain(waits.id);
  expect(told(all)).toEqual(["cancelled"]);
});

it("many at once end, and no other job does", async () => {
  const gate = new Gate();
  const app = await bench.worker(
    [
      handler("work", async (_, job) => {
        await Promise.race([gate.opened, aborted(job)]);
        job.signal.throwIfAborted();
      }),
    ],
    { queues: { default: { concurrency: 200 } } },
  );
  const jobs = app.get(JobQueue);
  const made = await jobs.enqueueMany(
    "work",
    Array.from({ length: 200 }, () => ({})),
  );
  await until(async () => (await bench.states()).running === 200, { what: "all run" });
  // Of another process, so that hints are sent.
  const elsewhere = await bench.producer();
  const cancelled = made.filter((_, n) => n % 2 === 0);
  const answers = await Promise.all(cancelled.map(({ id }) => elsewhere.cancel(id)));
  expect(new Set(answers)).toEqual(new Set(["requested"]));
  await until(async () => (await bench.states()).cancelled === 100);
  gate.open();
  await until(async () => (await bench.states()).succeeded === 100);
  await until(async () => (await rows()).length === 0);
});

it("work in job.transaction() is rolled back", async () => {
  await bench.sql("create table jobs.effect (n integer)");
  const begun = new Gate();
  const app = await bench.worker([
    handler(
      "work",
      async (_, job) =>
        await job.transaction(async (tx) => {
          await tx.query(`insert into ${bench.schema}.effect values (1)`);
          begun.open();
          await aborted(job);
        }),
      { attempts: 1 },
    ),
  ]);
  const jobs = app.get(JobQueue);
  const { id } = await jobs.enqueue("work", {});
  await begun.opened;
  expect(await jobs.cancel(id)).toBe("requested");
  await reached(bench, id, "cancelled");
  expect(await bench.sql("select 1 from jobs.effect")).toEqual([]);
});

// Behind a pooler the connection that can be ended is not the one that the worker has.
(behindPooler ? describe.skip : describe)("when the connection for claims was lost", () => {
  it("a job that was claimed before is reached", async () => {
    const { jobs, id, reasons } = await running((reason) => Promise.reject(reason as Error));
    const [before] = await bench.sql<{ n: number }>("select count(*)::int as n from jobs.worker");
    await bench.sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pg-jobs claim' and query like $1",
      [`%${bench.schema}%`],
    );
    // The next claim has a new id.
    const next = await jobs.enqueue("work", {});
    await reached(bench, next.id, "running");
    expect(await bench.sql("select 1 from jobs.worker")).toHaveLength(before!.n + 1);
    for (const one of [id, next.id]) await jobs.cancel(one);
    for (const one of [id, next.id]) await reached(bench, one, "cancelled");
    expect(reasons).toHaveLength(2);
  });
});

it("while the worker drains it is heard too", async () => {
  const { app, id, reasons } = await running((reason) => Promise.reject(reason as Error));
  const elsewhere = await bench.producer();
  const closing = app.close();
  expect(await elsewhere.cancel(id)).toBe("requested");
  await closing;
  expect(reasons).toEqual([expect.any(JobCancelledError)]);
  expect(await bench.state(id)).toBe("cancelled");
});

describe("in a transaction", () => {
  const begun = async () => {
    const all = await running((reason) => Promise.reject(reason as Error));
    const client = await bench.client();
    await client.query("begin");
    expect(await all.jobs.in(client).cancel(all.id)).toBe("requested");
    // Longer than it takes to read it.
    await client.query("select pg_sleep(1.5)");
    expect(all.reasons).toEqual([]);
    return { ...all, client };
  };

  it("of a pg client: after its commit", async () => {
    const { id, reasons, client } = await begun();
    await client.query("commit");
    client.release();
    expect(await awake(until(() => reasons.length))).toBeLessThan(1_000);
    await reached(bench, id, "cancelled");
    await until(async () => (await rows()).length === 0);
  });

  it("of a pg client: not after its rollback", async () => {
    const { jobs, id, reasons, client } = await begun();
    await client.query("rollback");
    client.release();
    // Another job is cancelled later, and reached: this one was not.
    const other = await jobs.enqueue("work", {});
    await reached(bench, other.id, "running");
    await jobs.cancel(other.id);
    await reached(bench, other.id, "cancelled");
    expect(reasons).toHaveLength(1);
    expect(await bench.state(id)).toBe("running");
    await jobs.cancel(id);
    await reached(bench, id, "cancelled");
  });

  it("of TypeORM: after its commit", async () => {
    const { jobs, id, reasons } = await running((reason) => Promise.reject(reason as Error));
    const dataSource = await new DataSource({ type: "postgres", url: bench.direct }).initialize();
    try {
      await dataSource.transaction(async (em) => {
        expect(await jobs.in(em).cancel(id)).toBe("requested");
        expect(reasons).toEqual([]);
      });
    } finally {
      await dataSource.destroy();
    }
    expect(await awake(until(() => reasons.length))).toBeLessThan(1_000);
    await reached(bench, id, "cancelled");
  });
});

describe("on a schema of the release before", () => {
  it("a cancel is requested, the signal does not abort, and does once it is migrated", async () => {
    await bench.close();
    bench = await Bench.open({ migrated: false });
    await bench.session().transaction((run) => applyWithin({ run }, bench.schema, 3));
    const warned = jest.spyOn(Logger.prototype, "warn").mockImplementation(() => undefined);
    try {
      const gate = new Gate();
      let signalled = 0;
      const app = await bench.worker([
        handler(
          "work",
          async (_, job) => {
            void aborted(job).then(() => signalled++);
            await Promise.race([gate.opened, aborted(job)]);
            throw new Error("boom");
          },
          { backoff: fixed("1h") },
        ),
      ]);
      const jobs = app.get(JobQueue);
      const first = await jobs.enqueue("work", {});
      await reached(bench, first.id, "running");
      expect(await jobs.cancel(first.id)).toBe("requested");
      const second = await jobs.enqueue("work", {});
      await reached(bench, second.id, "running");
      await bench.migrate();
      expect(await jobs.cancel(second.id)).toBe("requested");
      await reached(bench, second.id, "cancelled");
      expect(signalled).toBe(1);
      gate.open();
      await reached(bench, first.id, "cancelled");
      // Nobody was told of anything amiss.
      expect(warned.mock.calls).toEqual([]);
    } finally {
      warned.mockRestore();
    }
  });
});
