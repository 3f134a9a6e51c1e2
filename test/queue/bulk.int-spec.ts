import { type JobEvent, Events, JobBulk, JobInspector, JobQueue } from "nestjs-pg-jobs";
import type { PoolClient } from "pg";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { firstRelease } from "../support/first-release.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// What is done to many jobs at once: counted before, written down, worked off in pages, ended by whoever is there.

let bench: Bench;
let jobs: JobQueue;
let bulk: JobBulk;
let hands: Hands;
let worker: number;
let client: PoolClient;
const told: JobEvent[] = [];
beforeAll(async () => {
  bench = await Bench.open();
  const app = await bench.app([bench.root()]);
  jobs = app.get(JobQueue);
  bulk = app.get(JobBulk);
  app.get(Events).on(["requeued", "cancelled", "deleted"], (event) => told.push(event));
  bulk.watch();
  hands = await Hands.open(bench);
  worker = await hands.worker();
  client = await bench.client();
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  told.length = 0;
  await client.query("rollback");
  await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.dead_archive, jobs.bulk");
});

const error = JSON.stringify({ name: "Error", message: "boom" });
async function dead(count: number): Promise<string[]> {
  const ids = await hands.addMany(count);
  const claims = await hands.claim(worker, { room: count });
  const letters = claims.map(({ id, attempt }) => ({
    id,
    attempt,
    error,
    reason: "exhausted" as const,
    failed: true,
  }));
  await bury(hands.session, hands.queueId, worker, letters);
  return ids.map((id) => hands.named(id));
}
const ended = async (id: string) =>
  await until(
    async () => {
      const found = await bulk.get(id);
      return found?.state === "running" ? undefined : found;
    },
    { what: "it is over" },
  );
const by = { operator: "ada" };

it("previews how many fit, and the newest of them", async () => {
  const ids = await dead(25);
  await hands.addMany(3);
  const preview = await bulk.preview({ action: "requeue" });
  expect(preview).toMatchObject({ count: 25, complete: true });
  expect(preview.sample.map(({ id }) => id)).toEqual(ids.toReversed().slice(0, 10));
  expect(await bulk.preview({ action: "requeue", filter: { kind: "nobody's" } })).toEqual({
    count: 0,
    complete: true,
    sample: [],
  });
});

it("requeues pages of them, tells of each, and says what came of it", async () => {
  const ids = await dead(450);
  const order = await bulk.start({ action: "requeue", expected: 450, ...by, why: "a fix is out" });
  expect(order).toMatchObject({
    action: "requeue",
    filter: { states: ["dead"] },
    expected: 450,
    operator: "ada",
    why: "a fix is out",
    state: "running",
    changed: 0,
    refused: {},
    finishedAt: null,
  });
  expect(await ended(order.id)).toMatchObject({ state: "done", changed: 450, refused: {} });
  expect(await bench.states()).toEqual({ queued: 450 });
  await until(() => told.length >= 450, { what: "each is told of" });
  expect(new Set(told.map(({ id }) => id))).toEqual(new Set(ids));
  expect(told.every(({ event }) => event === "requeued")).toBe(true);
});

it("cancels what waits and asks what runs to end, and deletes the rest", async () => {
  await hands.addMany(5);
  await hands.claim(worker, { room: 2 });
  const cancel = await bulk.start({ action: "cancel", expected: 5, ...by });
  expect(await ended(cancel.id)).toMatchObject({ state: "done", changed: 5 });
  expect(await bench.states()).toEqual({ cancelled: 3, running: 2 });
  const remove = await bulk.start({ action: "delete", expected: 3, ...by });
  expect(await ended(remove.id)).toMatchObject({ state: "done", changed: 3 });
  expect(await bench.states()).toEqual({ running: 2 });
});

it("takes those that fit, and no others", async () => {
  await dead(3);
  const other = await jobs.enqueue("another", {}, { queue: "far" });
  await jobs.cancel(other.id);
  const filter = { queue: "far", state: "cancelled" } as const;
  expect(await bulk.preview({ action: "requeue", filter })).toMatchObject({ count: 1 });
  const order = await bulk.start({ action: "requeue", filter, expected: 1, ...by });
  expect(await ended(order.id)).toMatchObject({ changed: 1 });
  expect(await jobs.get(other.id)).toMatchObject({ state: "queued" });
  expect(await bench.states()).toEqual({ dead: 3, queued: 1 });
});

it("does nothing when other jobs fit than were expected", async () => {
  await dead(3);
  for (const expected of [2, 4])
    await expect(bulk.start({ action: "requeue", expected, ...by })).rejects.toMatchObject({
      code: "BULK_COUNT_DIFFERS",
      expected,
      found: 3,
    });
  expect(await bulk.list()).toEqual([]);
  expect(await bench.states()).toEqual({ dead: 3 });
});

it("refuses more than it may change", async () => {
  await bench.sql(
    `insert into jobs.dead (id, created_at, run_at, worker, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
     select -n, now(), now(), $1, 1, $2, 1, 0, $3, 1, 'work', '{}', 'exhausted' from generate_series(1, 100001) n`,
    [worker, hands.queueId, hands.lane],
  );
  expect(await bulk.preview({ action: "requeue" })).toMatchObject({ complete: false });
  await expect(bulk.start({ action: "requeue", expected: 100_000, ...by })).rejects.toMatchObject({
    code: "BULK_TOO_LARGE",
    most: 100_000,
  });
  expect(await bulk.list()).toEqual([]);
});

it("leaves alone what came after the order", async () => {
  // Nobody is at it yet: this process has not been told, and looks every five seconds.
  const elsewhere = (await bench.app([bench.root()])).get(JobBulk);
  await dead(1);
  const order = await elsewhere.start({ action: "requeue", expected: 1, ...by });
  await dead(2);
  expect(await ended(order.id)).toMatchObject({ state: "done", changed: 1 });
  expect(await bench.states()).toEqual({ queued: 1, dead: 2 });
});

it("leaves alone what came to its end after the order, though another one of those that fitted is kept", async () => {
  const [older, newer] = (await hands.addMany(2)).map((id) => hands.named(id));
  await jobs.cancel(newer!);
  await client.query("begin");
  await client.query(`select from ${bench.schema}.done where id = $1 for update`, [
    newer!.split("-")[1],
  ]);
  const order = await bulk.start({
    action: "delete",
    filter: { state: "cancelled" },
    expected: 1,
    ...by,
  });
  await jobs.cancel(older!);
  expect(await ended(order.id)).toMatchObject({ changed: 0, refused: { locked: 1 } });
  await client.query("rollback");
  expect(await bench.states()).toEqual({ cancelled: 2 });
});

it("passes over what somebody has locked, and says so", async () => {
  const ids = await dead(12);
  await client.query("begin");
  await client.query(`select 1 from ${bench.schema}.dead where id = $1 for update`, [
    ids[5]!.split("-")[1],
  ]);
  const order = await bulk.start({ action: "requeue", expected: 12, ...by });
  expect(await ended(order.id)).toMatchObject({
    state: "done",
    changed: 11,
    refused: { locked: 1 },
  });
  await client.query("rollback");
  expect(await bench.states()).toEqual({ queued: 11, dead: 1 });
});

it("says why others were not changed", async () => {
  const first = await jobs.enqueue("work", {}, { key: "k" });
  await jobs.cancel(first.id);
  await jobs.enqueue("work", {}, { key: "k" });
  const filter = { state: "cancelled" } as const;
  const order = await bulk.start({ action: "requeue", filter, expected: 1, ...by });
  expect(await ended(order.id)).toMatchObject({ changed: 0, refused: { "key-taken": 1 } });
});

it("stops when it is told to, between two pages", async () => {
  await dead(1_000);
  await client.query("begin");
  // Its third page waits for a lock.
  const [row] = await bench.sql<{ id: string }>(
    "select id from jobs.dead order by id desc offset 450 limit 1",
  );
  await client.query(`select 1 from ${bench.schema}.dead where id = $1 for update`, [row!.id]);
  const order = await bulk.start({ action: "requeue", expected: 1_000, ...by });
  await until(async () => (await bulk.get(order.id))!.changed >= 400, { what: "two pages" });
  const stopping = bulk.stop(order.id);
  await client.query("rollback");
  expect(await stopping).toMatchObject({ state: "stopped", finishedAt: expect.any(String) });
  const { changed } = (await bulk.get(order.id))!;
  const states = await bench.states();
  expect(states).toEqual({ queued: changed, dead: 1_000 - changed });
  expect(await bulk.stop(order.id)).toMatchObject({ state: "stopped", changed });
});

it("goes on in another process when the one that was at it is gone, each job once", async () => {
  const elsewhere = (await bench.app([bench.root()])).get(JobBulk);
  await dead(300);
  const order = await elsewhere.start({ action: "requeue", expected: 300, ...by });
  await bench.sql(
    "update jobs.bulk set runner = 'gone', lease_until = now() + interval '1 hour' where changed = 0",
  );
  // As it does each five seconds, this process looks.
  await until(
    async () => {
      const [row] = await bench.sql<{ runner: string }>("select runner from jobs.bulk");
      return row!.runner === "gone";
    },
    { what: "somebody else has it" },
  );
  expect(await bulk.get(order.id)).toMatchObject({ state: "running", changed: 0 });
  await bench.sql("update jobs.bulk set lease_until = now() - interval '1 s'");
  expect(await ended(order.id)).toMatchObject({ state: "done", changed: 300 });
  expect(await bench.states()).toEqual({ queued: 300 });
});

it("two processes that watch do each job once", async () => {
  const other = await bench.app([bench.root()]);
  other.get(JobBulk).watch();
  await dead(500);
  const orders = [
    await bulk.start({ action: "requeue", expected: 500, ...by }),
    await other
      .get(JobBulk)
      .start({ action: "requeue", expected: 500, ...by })
      .catch(() => undefined),
  ];
  const over = [];
  for (const one of orders) if (one) over.push(await ended(one.id));
  expect(over.reduce((sum, { changed }) => sum + changed, 0)).toBe(500);
  expect(await bench.states()).toEqual({ queued: 500 });
});

it("an app that closes lets go of it, and another one goes on at once", async () => {
  const closing = await bench.app([bench.root()]);
  await dead(1_000);
  const order = await closing.get(JobBulk).start({ action: "requeue", expected: 1_000, ...by });
  closing.get(JobBulk).watch();
  await closing.close();
  expect(await ended(order.id)).toMatchObject({ state: "done", changed: 1_000 });
  expect(await bench.states()).toEqual({ queued: 1_000 });
});

it("lists them, the newest first, in pages", async () => {
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) {
    await dead(1);
    const { id } = await bulk.start({
      action: "delete",
      filter: { state: "dead" },
      expected: 1,
      ...by,
    });
    ids.unshift(id);
    await ended(id);
  }
  expect((await bulk.list({ limit: 2 })).map(({ id }) => id)).toEqual(ids.slice(0, 2));
  expect((await bulk.list({ limit: 2, after: ids[1]! })).map(({ id }) => id)).toEqual(
    ids.slice(2, 4),
  );
});

describe("bad input", () => {
  it.each<[object, RegExp]>([
    [{}, /action: expected 'requeue' or 'cancel' or 'delete'/],
    [{ action: "requeu" }, /did you mean 'requeue'/],
    [
      { action: "requeue", filter: { state: "queued" } },
      /filter\.state: expected for requeue some of dead, cancelled, found "queued"/,
    ],
    [{ action: "delete", filter: { state: "running" } }, /filter\.state: expected for delete/],
    [
      { action: "cancel", filter: { kinds: "x" } },
      /filter\.kinds: unknown option, did you mean kind/,
    ],
    [{ action: "cancel", expectd: 1 }, /expectd: unknown option/],
  ])("%j is refused", async (request, message) => {
    await expect(bulk.preview(request as never)).rejects.toThrow(message);
    await expect(bulk.start({ expected: 1, ...by, ...request } as never)).rejects.toThrow(message);
  });

  it.each<[object, RegExp]>([
    [{ expected: undefined }, /expected: expected an integer 1\.\.100000, found null/],
    [{ expected: 0 }, /expected: expected an integer/],
    [{ expected: 100_001 }, /expected: expected an integer/],
    [{ operator: undefined }, /operator: expected a text/],
    [{ operator: "" }, /operator: expected who orders it/],
    [{ operator: "a\0" }, /operator: expected a text/],
    [{ why: 7 }, /why: expected a text/],
  ])("an order with %j is refused", async (over, message) => {
    const order = { action: "cancel", expected: 1, ...by, ...over };
    await expect(bulk.start(order as never)).rejects.toThrow(message);
    expect(await bulk.list()).toEqual([]);
  });

  it("what is no id is none, and an older schema is told of", async () => {
    for (const id of ["", "x", "0", "-1", "1-1", "99999999999999999999", 7 as never]) {
      expect(await bulk.get(id)).toBeNull();
      await expect(bulk.stop(id)).rejects.toMatchObject({ code: "BULK_UNKNOWN" });
    }
    await expect(bulk.list({ after: "x" })).rejects.toThrow(/after: expected the id/);
    const old = await firstRelease();
    try {
      const app = await old.app([old.root()]);
      app.get(JobBulk).watch();
      await expect(app.get(JobBulk).preview({ action: "cancel" })).rejects.toMatchObject({
        code: "SCHEMA_NOT_READY",
      });
      expect(await app.get(JobInspector).counts()).toEqual([]);
    } finally {
      await old.close();
    }
  });
});
