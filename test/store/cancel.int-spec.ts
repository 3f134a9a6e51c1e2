import { type JobEvent, Events, JobQueue } from "nestjs-pg-jobs";
import type { PoolClient } from "pg";
import { onTransaction } from "../../libs/jobs/src/queue/transaction.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { cancel, cancelHeld } from "../../libs/jobs/src/store/transitions/cancel.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { snooze } from "../../libs/jobs/src/store/transitions/snooze.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { type Runner, Statement } from "../../libs/jobs/src/pg/statement.js";
import { firstRelease } from "../support/first-release.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// A person withdraws a job, in every state of it, and against whoever changes it at the same time.

let bench: Bench;
let jobs: JobQueue;
let hands: Hands;
let worker: number;
let told: JobEvent[];
let client: PoolClient;
beforeAll(async () => {
  bench = await Bench.open();
  const app = await bench.app([bench.root()]);
  jobs = app.get(JobQueue);
  told = [];
  app.get(Events).on(["cancelled"], (event) => told.push(event));
  hands = await Hands.open(bench);
  worker = await hands.worker();
  client = await bench.client();
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  told.length = 0;
  // One that a failed test left open would hold the truncate for ever.
  await client.query("rollback");
  await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.dead_archive, jobs.attempt_error");
});

// Before PostgreSQL 15 there is no such function: a process sends its statistics when it has done something else,
// half a second later, which the error of the call is too.
const flush = new Statement(null, () => "select pg_stat_force_next_flush()");
const error = JSON.stringify({ name: "Error", message: "boom" });

type Settle = (runner: Runner, id: string) => Promise<Set<string>>;
const BACK: Record<string, Settle> = {
  retry: async (runner, id) =>
    await retry(runner, hands.queueId, worker, [{ id, attempt: 1, delayMs: 60_000, error }]),
  snooze: async (runner, id) =>
    await snooze(runner, hands.queueId, worker, [{ id, attempt: 1, delayMs: 60_000 }]),
  "hand back": async (runner, id) =>
    await handBack(runner, hands.queueId, worker, [
      { id, attempt: 1, started: true, quarantine: false },
    ]),
};
const WIN: Record<string, [Settle, state: string]> = {
  succeed: [
    async (runner, id) =>
      await succeed(runner, hands.queueId, worker, [{ id, attempt: 1, result: "1" }]),
    "succeeded",
  ],
  bury: [
    async (runner, id) =>
      await bury(runner, hands.queueId, worker, [
        { id, attempt: 1, error, reason: "exhausted", failed: true },
      ]),
    "dead",
  ],
};

const claimed = async (over = {}): Promise<string> => {
  const id = await hands.add(over);
  await hands.claim(worker);
  return id;
};
const endCancelled = async (id: string, failed: string | null = null) =>
  await cancelHeld(hands.session, hands.queueId, worker, [{ id, attempt: 1, error: failed }]);

/** Does the first in a transaction that stays open until the second waits for it; answers what the second says. */
async function overtaken<T>(
  first: (runner: Runner) => Promise<unknown>,
  second: () => Promise<T>,
  end: "commit" | "rollback" = "commit",
): Promise<T> {
  await client.query("begin");
  await first(onTransaction(client, bench.schema));
  const waiting = second();
  waiting.catch(() => undefined);
  const blocked = `select 1 from pg_stat_activity
    where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`;
  await until(async () => (await bench.sql(blocked)).length, { what: "the second waits" });
  await client.query(end);
  return await waiting;
}

const inTransaction = (id: string) => async () => await jobs.in(client).cancel(hands.named(id));

describe("a job that waits", () => {
  it.each(["queued", "to be retried", "quarantined"])("%s, is withdrawn", async (how) => {
    const id = how === "queued" ? await hands.add({ payload: '{"n":1}' }) : await claimed();
    if (how === "to be retried") await BACK.retry!(hands.session, id);
    if (how === "quarantined")
      await handBack(hands.session, hands.queueId, worker, [
        { id, attempt: 1, started: false, quarantine: true },
      ]);
    const before = (await jobs.get(hands.named(id)))!;
    expect(await jobs.cancel(hands.named(id))).toBe("cancelled");
    expect(await jobs.get(hands.named(id))).toEqual({
      ...before,
      state: "cancelled",
      finishedAt: expect.any(String),
      worker: null,
    });
    expect(await hands.claim(worker, { takeOver: true })).toEqual([]);
    expect(told).toEqual([
      { event: "cancelled", id: hands.named(id), kind: "work", queue: "default" },
    ]);
    expect(await bench.sql("select lane from jobs.done")).toEqual([{ lane: hands.lane }]);
  });

  it("may be cancelled again, and is told of once", async () => {
    const { id } = await jobs.enqueue("work", {});
    expect([await jobs.cancel(id), await jobs.cancel(id)]).toEqual(["cancelled", "cancelled"]);
    expect(told).toHaveLength(1);
    expect(await bench.states()).toEqual({ cancelled: 1 });
  });

  it("frees its key, and comes back by a requeue when nobody has it", async () => {
    const first = await jobs.enqueue("work", { n: 1 }, { key: "k" });
    await jobs.cancel(first.id);
    const second = await jobs.enqueue("work", { n: 2 }, { key: "k" });
    expect(second.deduplicated).toBe(false);
    expect(await jobs.requeue(first.id)).toBe("key-taken");
    await jobs.cancel(second.id);
    expect(await jobs.requeue(first.id)).toBe("queued");
    expect(await jobs.get(first.id)).toMatchObject({ state: "queued", payload: { n: 1 } });
    expect(await jobs.cancel(first.id)).toBe("cancelled");
  });

  it("with an expired lease is withdrawn too, and whoever had it has lost it", async () => {
    const id = await claimed();
    await hands.expire(id);
    expect(await jobs.cancel(hands.named(id))).toBe("cancelled");
    // An answer of "settled" would tell observers that it succeeded.
    expect([...(await WIN.succeed![0](hands.session, id))]).toEqual([]);
    expect(await bench.states()).toEqual({ cancelled: 1 });
  });

  it("is withdrawn when today's partition has to be made first", async () => {
    const { id } = await jobs.enqueue("work", {});
    const today = new Date().toISOString().slice(0, 10).replaceAll("-", "");
    await bench.sql(`drop table jobs.done_${today}`);
    expect(await jobs.cancel(id)).toBe("cancelled");
  });
});

describe("a job that runs", () => {
  it.each([
    ["retry", 1],
    ["snooze", 0],
    ["hand back", 0],
  ])("and would %s ends as cancelled", async (verb, errors) => {
    const id = await claimed();
    expect(await jobs.cancel(hands.named(id))).toBe("requested");
    expect(await jobs.cancel(hands.named(id))).toBe("requested");
    expect(await bench.state(hands.named(id))).toBe("running");
    expect([...(await BACK[verb]!(hands.session, id))]).toEqual([]);
    expect([...(await endCancelled(id, errors ? error : null))]).toEqual([id]);
    expect(await jobs.get(hands.named(id))).toMatchObject({
      state: "cancelled",
      worker: "hands:1",
      failures: errors,
    });
    expect(await bench.sql("select 1 from jobs.attempt_error")).toHaveLength(errors);
    // Observers hear of it from the worker that has settled it.
    expect(told).toEqual([]);
  });

  it.each(Object.keys(WIN))("and would %s does so", async (verb) => {
    const id = await claimed();
    expect(await jobs.cancel(hands.named(id))).toBe("requested");
    const [settle, state] = WIN[verb]!;
    expect([...(await settle(hands.session, id))]).toEqual([id]);
    expect(await bench.states()).toEqual({ [state]: 1 });
    expect(await jobs.cancel(hands.named(id))).toBe("not-cancellable");
    expect(await bench.states()).toEqual({ [state]: 1 });
  });

  it("and loses its worker is taken over to be cancelled, not to be run", async () => {
    const id = await claimed();
    await jobs.cancel(hands.named(id));
    await hands.expire(id);
    const other = await hands.worker(2);
    const [claim] = await hands.claim(other, { takeOver: true });
    expect(claim).toMatchObject({ id, attempt: 2, cancelled: true });
    const batch = [{ id, attempt: 2, error: null }];
    expect([...(await cancelHeld(hands.session, hands.queueId, other, batch))]).toEqual([id]);
    expect(await bench.states()).toEqual({ cancelled: 1 });
  });

  it("is cancelled by nobody but its own attempt, and only when that was asked for", async () => {
    const id = await claimed();
    expect([...(await endCancelled(id))]).toEqual([]);
    await jobs.cancel(hands.named(id));
    for (const [by, attempt] of [
      [worker + 1, 1],
      [worker, 2],
    ] as const)
      expect([
        ...(await cancelHeld(hands.session, hands.queueId, by, [{ id, attempt, error: null }])),
      ]).toEqual([]);
    expect(await bench.states()).toEqual({ running: 1 });
  });

  it("is asked without a new index entry", async () => {
    // Its own tables: what other tests did is counted at any time.
    const own = await Bench.open();
    try {
      const alone = await Hands.open(own);
      const id = await alone.add();
      await alone.claim(await alone.worker());
      await cancel(alone.session, alone.queueId, id);
      const updates = async () => {
        // Before PostgreSQL 15 a process sends its statistics when it has done something else, half a second later.
        await alone.session.run(flush).catch(() => undefined);
        const [row] = await own.sql<{ all: number; hot: number }>(
          `select n_tup_upd::int as all, n_tup_hot_upd::int as hot from pg_stat_user_tables
           where schemaname = '${own.schema}' and relname = 'job'`,
        );
        return row!;
      };
      await until(async () => (await updates()).all >= 2, { every: 300, what: "statistics" });
      expect(await updates()).toEqual({ all: 2, hot: 2 });
    } finally {
      await own.close();
    }
  });
});

describe("any other job", () => {
  it("is unknown, or no id", async () => {
    expect(await jobs.cancel(`${hands.queueId}-999999999`)).toBe("unknown");
    expect(await jobs.cancel("999-1")).toBe("unknown");
    for (const bad of ["nonsense", "", "1-1; drop", undefined, 7, "1-99999999999999999999"])
      await expect(jobs.cancel(bad as string)).rejects.toMatchObject({ code: "JOB_ID_INVALID" });
  });

  it("that is an archived dead letter has ended", async () => {
    const id = await claimed();
    await WIN.bury![0](hands.session, id);
    await bench.sql("insert into jobs.dead_archive select d.*, now() from jobs.dead d");
    await bench.sql("delete from jobs.dead");
    expect(await jobs.cancel(hands.named(id))).toBe("not-cancellable");
  });

  it("that another transaction holds says so", async () => {
    const { id } = await jobs.enqueue("work", {});
    await client.query("begin");
    await client.query(`select 1 from ${bench.schema}.job for update`);
    await expect(jobs.cancel(id)).rejects.toMatchObject({ code: "JOB_LOCKED" });
    await client.query("rollback");
    expect(await jobs.cancel(id)).toBe("cancelled");
  });
});

it("on a schema of the release before it is refused: the counters there would not follow", async () => {
  const old = await firstRelease();
  try {
    const queue = await old.producer();
    const { id } = await queue.enqueue("work", {});
    const one = await old.client();
    await one.query("begin");
    const refused = { code: "SCHEMA_NOT_READY", found: 1, needed: 2, feature: "cancel" };
    await expect(queue.cancel(id)).rejects.toMatchObject(refused);
    await expect(queue.in(one).cancel(id)).rejects.toMatchObject(refused);
    expect(await old.states()).toEqual({ queued: 1 });
  } finally {
    await old.close();
  }
});

describe("in a transaction", () => {
  it("it is cancelled if and only if that commits", async () => {
    const { id } = await jobs.enqueue("work", {});
    for (const end of ["rollback", "commit"]) {
      await client.query("begin");
      expect(await jobs.in(client).cancel(id)).toBe("cancelled");
      expect(await bench.state(id)).toBe("queued");
      // A claim does not wait for it.
      expect(await hands.claim(worker)).toEqual([]);
      await client.query(end);
    }
    expect(await bench.state(id)).toBe("cancelled");
  });

  describe("and its day has no partition yet", () => {
    const today = () => new Date().toISOString().slice(0, 10).replaceAll("-", "");

    it.each(["read committed", "repeatable read"])("that is made first, %s", async (isolation) => {
      const { id } = await jobs.enqueue("work", {});
      await bench.sql(`drop table jobs.done_${today()}`);
      await client.query(`begin isolation level ${isolation}`);
      await client.query(`select 1 from ${bench.schema}.job_status`);
      expect(await jobs.in(client).cancel(id)).toBe("cancelled");
      await client.query("commit");
      expect(await bench.states()).toEqual({ cancelled: 1 });
    });

    it("a day that cannot be made is told, and the transaction goes on", async () => {
      const { id } = await jobs.enqueue("work", {});
      await bench.sql(`drop table jobs.done_${today()}`);
      const other = await bench.client();
      await other.query("begin");
      await other.query(`lock table ${bench.schema}.done in share update exclusive mode`);
      await client.query("begin");
      await expect(jobs.in(client).cancel(id)).rejects.toMatchObject({
        code: "DATABASE_UNAVAILABLE",
        message: expect.stringContaining("The job was not cancelled, and nothing else of the"),
      });
      await jobs.in(client).enqueue("work", {});
      await client.query("commit");
      expect(await bench.states()).toEqual({ queued: 2 });
      await other.query("rollback");
      other.release();
      expect(await jobs.cancel(id)).toBe("cancelled");
    });
  });

  it("a job of the same transaction is cancelled", async () => {
    await client.query("begin");
    const { id } = await jobs.in(client).enqueue("work", {}, { key: "k" });
    expect(await jobs.in(client).cancel(id)).toBe("cancelled");
    const again = await jobs.in(client).enqueue("work", {}, { key: "k" });
    expect(again.deduplicated).toBe(false);
    await client.query("commit");
    expect(await bench.states()).toEqual({ cancelled: 1, queued: 1 });
  });
});

describe("at the same time", () => {
  const cancelIt = (id: string) => async () => await jobs.cancel(hands.named(id));

  it("a claim that was first makes it a request", async () => {
    const id = await hands.add();
    const version = await hands.version();
    const claim = async (session: Runner) =>
      await hands.claim(worker, { session: session as never, version });
    expect(await overtaken(claim, cancelIt(id))).toBe("requested");
    const [row] = await bench.sql("select cancel_at is not null as asked, attempt from jobs.job");
    expect(row).toEqual({ asked: true, attempt: 1 });
  });

  it("a claim that was first and is undone leaves it to be withdrawn", async () => {
    const id = await hands.add();
    const version = await hands.version();
    const claim = async (session: Runner) =>
      await hands.claim(worker, { session: session as never, version });
    expect(await overtaken(claim, cancelIt(id), "rollback")).toBe("cancelled");
    expect(await bench.states()).toEqual({ cancelled: 1 });
  });

  it.each(Object.keys(WIN))("a %s that was first stands", async (verb) => {
    const id = await claimed();
    const [settle, state] = WIN[verb]!;
    expect(await overtaken((runner) => settle(runner, id), cancelIt(id))).toBe("not-cancellable");
    expect(await bench.states()).toEqual({ [state]: 1 });
  });

  it.each(Object.keys(BACK))("a %s that was first is followed by a withdrawal", async (verb) => {
    const id = await claimed();
    const settle = async (runner: Runner) => await BACK[verb]!(runner, id);
    expect(await overtaken(settle, cancelIt(id))).toBe("cancelled");
    expect(await bench.states()).toEqual({ cancelled: 1 });
  });

  it.each(Object.keys(BACK))("a %s that was second does not put it back", async (verb) => {
    const id = await claimed();
    const settle = async () => await BACK[verb]!(hands.session, id);
    expect([...(await overtaken(inTransaction(id), settle))]).toEqual([]);
    expect([...(await endCancelled(id))]).toEqual([id]);
    expect(await bench.states()).toEqual({ cancelled: 1 });
  });

  it.each(Object.keys(WIN))("a %s that was second wins", async (verb) => {
    const id = await claimed();
    const [settle, state] = WIN[verb]!;
    const second = async () => await settle(hands.session, id);
    expect([...(await overtaken(inTransaction(id), second))]).toEqual([id]);
    expect(await bench.states()).toEqual({ [state]: 1 });
  });

  it("two people cancel it once", async () => {
    const id = await hands.add();
    expect(await overtaken(inTransaction(id), cancelIt(id))).toBe("cancelled");
    expect(await bench.states()).toEqual({ cancelled: 1 });
    expect(told).toEqual([]);
    const other = await hands.add();
    expect(await overtaken(inTransaction(other), cancelIt(other), "rollback")).toBe("cancelled");
    expect(told).toHaveLength(1);
  });

  it("a call with its key waits, and makes a new job", async () => {
    const first = await jobs.enqueue("work", {}, { key: "k" });
    const number = first.id.split("-")[1]!;
    const second = await overtaken(
      inTransaction(number),
      async () => await jobs.enqueue("work", {}, { key: "k" }),
    );
    expect(second).toEqual({ id: expect.not.stringMatching(first.id), deduplicated: false });
    expect(await bench.states()).toEqual({ cancelled: 1, queued: 1 });
  });

  it("a requeue and a cancel end in one place", async () => {
    const other = await bench.producer();
    for (let round = 0; round < 20; round++) {
      const { id } = await jobs.enqueue("work", {});
      await jobs.cancel(id);
      const [sent, answer] = await Promise.all([other.requeue(id), jobs.cancel(id)]);
      expect([sent, answer]).toEqual(["queued", "cancelled"]);
      expect(["queued", "cancelled"]).toContain(await bench.state(id));
    }
    const all = await bench.sql("select id from jobs.job_status");
    expect(all).toHaveLength(20);
  });
});
