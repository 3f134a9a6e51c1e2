import { type JobEvent, Events, JobInspector, JobQueue } from "nestjs-pg-jobs";
import type { PoolClient } from "pg";
import { onTransaction } from "../../libs/jobs/src/queue/transaction.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import { skip } from "../../libs/jobs/src/store/transitions/skip.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { rollUp } from "../../libs/jobs/src/store/upkeep/deltas.js";
import { firstRelease } from "../support/first-release.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// A person takes a job away for good, in every state of it, and against whoever changes it at the same time.

let bench: Bench;
let jobs: JobQueue;
let inspector: JobInspector;
let hands: Hands;
let worker: number;
let told: JobEvent[];
let client: PoolClient;
beforeAll(async () => {
  bench = await Bench.open();
  const app = await bench.app([bench.root()]);
  jobs = app.get(JobQueue);
  inspector = app.get(JobInspector);
  told = [];
  app.get(Events).on(["deleted"], (event) => told.push(event));
  hands = await Hands.open(bench);
  worker = await hands.worker();
  client = await bench.client();
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  told.length = 0;
  // One that a failed test left open would hold the truncate for ever.
  await client.query("rollback");
  await bench.sql(
    "truncate jobs.job, jobs.done, jobs.dead, jobs.dead_archive, jobs.attempt_error, jobs.event, jobs.stat, jobs.stat_delta",
  );
});

const error = JSON.stringify({ name: "Error", message: "boom" });
const claimed = async (): Promise<string> => {
  const id = await hands.add();
  await hands.claim(worker);
  return id;
};
const dead = async (): Promise<string> => {
  const id = await claimed();
  const letter = { id, attempt: 1, error, reason: "exhausted" as const, failed: true };
  await bury(hands.session, hands.queueId, worker, [letter]);
  return id;
};

const STATES: Record<string, () => Promise<string>> = {
  queued: async () => await hands.add(),
  "due later": async () => (await jobs.enqueue("work", {}, { delay: "1h" })).id.split("-")[1]!,
  quarantined: async () => {
    const id = await claimed();
    const one = { id, attempt: 1, started: false, quarantine: true };
    await handBack(hands.session, hands.queueId, worker, [one]);
    return id;
  },
  "running, its lease over": async () => {
    const id = await claimed();
    await hands.expire(id);
    return id;
  },
  succeeded: async () => {
    const id = await claimed();
    await succeed(hands.session, hands.queueId, worker, [{ id, attempt: 1, result: "1" }]);
    return id;
  },
  skipped: async () => {
    const id = await claimed();
    await skip(hands.session, hands.queueId, worker, [{ id, attempt: 1, result: "{}" }]);
    return id;
  },
  cancelled: async () => {
    const id = await hands.add();
    await jobs.cancel(hands.named(id));
    return id;
  },
  dead,
  archived: async () => {
    const id = await dead();
    await bench.sql(
      `with gone as (delete from jobs.dead returning *) insert into jobs.dead_archive select * from gone`,
    );
    return id;
  },
};

it.each(Object.keys(STATES))("a job that is %s is gone, counted and told of", async (state) => {
  const id = await STATES[state]!();
  const name = hands.named(id);
  expect(await jobs.delete(name)).toBe("deleted");
  expect(await jobs.get(name)).toBeNull();
  expect(await bench.sql("select 1 from jobs.job_status")).toEqual([]);
  const none = { succeeded: 0, skipped: 0, cancelled: 0, dead: 0, archived: 0, pruned: 0 };
  const counted = [{ queue: "default", kind: "work", unfinished: 0, ...none, deleted: 1 }];
  expect(await inspector.counts()).toEqual(counted);
  await rollUp(hands.session);
  expect(await inspector.counts()).toEqual(counted);
  expect(told).toEqual([{ event: "deleted", id: name, kind: "work", queue: "default" }]);
  expect((await inspector.history(name)).at(-1)).toMatchObject({ event: "deleted" });
  expect(await jobs.delete(name)).toBe("unknown");
  expect(await jobs.requeue(name)).toBe("unknown");
  expect(told).toHaveLength(1);
  expect(await hands.claim(worker, { takeOver: true })).toEqual([]);
  expect([
    ...(await succeed(hands.session, hands.queueId, worker, [{ id, attempt: 1, result: "1" }])),
  ]).toEqual([]);
});

it("a job that runs is not touched", async () => {
  const id = await claimed();
  const before = await hands.trace(id);
  expect(await jobs.delete(hands.named(id))).toBe("running");
  expect(await hands.trace(id)).toBe(before);
  expect(told).toEqual([]);
  expect([
    ...(await succeed(hands.session, hands.queueId, worker, [{ id, attempt: 1, result: "1" }])),
  ]).toEqual([id]);
});

it("its key is free", async () => {
  const { id } = await jobs.enqueue("work", {}, { key: "k" });
  await jobs.delete(id);
  expect(await jobs.enqueue("work", {}, { key: "k" })).toMatchObject({ deduplicated: false });
});

it("who waits for its result is told that it has left none", async () => {
  const { id } = await jobs.enqueue("work", {});
  const waits = jobs.result(id, { timeout: "20s" }).catch((problem: unknown) => problem);
  await until(async () => (await bench.sql("select 1 from jobs.job where awaited")).length > 0, {
    what: "it waits",
  });
  await jobs.delete(id);
  expect(await waits).toMatchObject({ code: "RESULT_NOT_KEPT" });
});

it("tells nothing where a queue keeps no history, and makes the day that it is told in", async () => {
  await bench.sql("update jobs.queue set history = 'none'");
  try {
    await jobs.delete(hands.named(await hands.add()));
    expect(await bench.sql("select 1 from jobs.event")).toEqual([]);
  } finally {
    await bench.sql("update jobs.queue set history = 'exceptions'");
  }
  const today = new Date().toISOString().slice(0, 10).replaceAll("-", "");
  await bench.sql(`drop table jobs.event_${today}`);
  expect(await jobs.delete(hands.named(await hands.add()))).toBe("deleted");
  expect(await bench.sql("select event from jobs.event")).toEqual([{ event: "deleted" }]);
});

/** Does the first in a transaction that stays open until the delete waits for it. */
async function overtaken(id: string, first: () => Promise<unknown>): Promise<string> {
  await client.query("begin");
  await first();
  const deleting = jobs.delete(hands.named(id));
  deleting.catch(() => undefined);
  const blocked = `select 1 from pg_stat_activity
    where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`;
  await until(async () => (await bench.sql(blocked)).length, { what: "the delete waits" });
  await client.query("commit");
  return await deleting;
}

it("finds what settled while it waited", async () => {
  const id = await claimed();
  const settle = () => {
    const runner = onTransaction(client, bench.schema);
    return succeed(runner, hands.queueId, worker, [{ id, attempt: 1, result: "1" }]);
  };
  expect(await overtaken(id, settle)).toBe("deleted");
  expect(await bench.sql("select 1 from jobs.job_status")).toEqual([]);
  expect(await inspector.counts()).toMatchObject([{ unfinished: 0, succeeded: 0, deleted: 1 }]);
});

it("leaves to its worker what was claimed while it waited", async () => {
  const id = await hands.add();
  const claim = () =>
    client.query(
      `update ${bench.schema}.job set lease_until = now() + interval '1 minute', worker = $1, attempt = 1 where id = $2`,
      [worker, id],
    );
  expect(await overtaken(id, claim)).toBe("running");
  expect(await bench.state(hands.named(id))).toBe("running");
});

it("of two people one has deleted it", async () => {
  const id = hands.named(await dead());
  const answers = await Promise.all([jobs.delete(id), jobs.delete(id), jobs.delete(id)]);
  expect(answers.toSorted()).toEqual(["deleted", "unknown", "unknown"]);
  expect(await inspector.counts()).toMatchObject([{ dead: 0, deleted: 1 }]);
});

it("says so of what is no id, of a lock, and of an older schema", async () => {
  for (const id of ["", "1", "x-1", "1-99999999999999999999"])
    await expect(jobs.delete(id)).rejects.toMatchObject({ code: "JOB_ID_INVALID" });
  expect(await jobs.delete("999-1")).toBe("unknown");
  const id = await hands.add();
  await client.query("begin");
  await client.query(`select 1 from ${bench.schema}.job where id = $1 for update`, [id]);
  await expect(jobs.delete(hands.named(id))).rejects.toMatchObject({ code: "JOB_LOCKED" });
  await client.query("rollback");
  const old = await firstRelease();
  try {
    await expect((await old.producer()).delete("1-1")).rejects.toMatchObject({
      code: "SCHEMA_NOT_READY",
    });
  } finally {
    await old.close();
  }
});
