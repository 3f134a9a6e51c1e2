import { JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { Hands, from } from "../support/hands.js";
import { Role } from "../support/role.js";

// What an autoscaler asks: how many worker processes a queue could use.

let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  await bench.sql("truncate jobs.job, jobs.worker");
});

const desired = async (queue: string, slots?: number): Promise<number> => {
  const [row] = await bench.sql<{ n: number }>("select jobs.desired_workers($1, $2) as n", [
    queue,
    slots ?? null,
  ]);
  return row!.n;
};
const many = async (count: number, kind = "work", queue = "scaled", options = {}) =>
  await jobs.enqueueMany(
    kind,
    Array.from({ length: count }, () => ({})),
    { queue, ...options },
  );

it("is none without a job, and for a queue that nobody has heard of", async () => {
  expect(await desired("unheard of")).toBe(0);
  const id = (await many(1))[0]!.id;
  await jobs.cancel(id);
  expect(await desired("scaled")).toBe(0);
});

it("is what could run now, by the slots of a worker: those that live, those that are said, or ten", async () => {
  await many(25);
  await many(100, "later", "scaled", { delay: "1h" });
  await many(100, "work", "other");
  expect(await desired("scaled")).toBe(3);
  expect(await desired("scaled", 25)).toBe(1);
  expect(await desired("scaled", 1)).toBe(25);
  await bench.sql(
    `insert into jobs.worker (host, pid, kinds, slots, beat_at) values
       ('a', 1, '{"scaled": ["work"]}', 5, now()), ('b', 2, '{"other": ["work"]}', 50, now()),
       ('c', 3, '{"scaled": ["work"]}', 100, now() - interval '2 minutes')`,
  );
  expect(await desired("scaled")).toBe(5);
  await expect(desired("scaled", 0)).rejects.toMatchObject({
    code: "22023",
    message: expect.stringContaining("slots: expected 1 or more, found 0"),
  });
});

it("counts what runs, of all kinds and priorities, and nothing twice", async () => {
  const hands = await Hands.open(bench, "scaled");
  await many(4);
  await many(3, "other kind", "scaled", { priority: 7 });
  const worker = await hands.worker();
  await bench.sql("update jobs.worker set stopped_at = now()");
  expect(await hands.claim(worker, { lanes: [from(hands.lane)], room: 2 })).toHaveLength(2);
  expect(await desired("scaled", 1)).toBe(7);
});

it("of what is paused only what runs counts", async () => {
  const hands = await Hands.open(bench, "scaled");
  await many(4);
  await many(3, "other kind");
  await hands.claim(await hands.worker(), { lanes: [from(hands.lane)], room: 1 });
  await jobs.queues.pause("scaled", { kind: "work" });
  expect(await desired("scaled", 1)).toBe(4);
  await jobs.queues.pause("scaled");
  expect(await desired("scaled", 1)).toBe(1);
  await jobs.queues.resume("scaled");
  await jobs.queues.resume("scaled", { kind: "work" });
  expect(await desired("scaled", 1)).toBe(7);
});

it("asks for no more than limits let start", async () => {
  await many(40, "bounded", "limited");
  await many(40, "free", "limited");
  await jobs.queues.limit("limited", { kind: "bounded", limit: { max: 3 } });
  expect(await desired("limited", 1)).toBe(43);
  await jobs.queues.limit("limited", { limit: { max: 5 } });
  expect(await desired("limited", 1)).toBe(5);
});

it("walks no more than 10,001 of a lane, however many wait", async () => {
  const hands = await Hands.open(bench, "deep");
  await bench.sql(
    `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
     select -n, now() - interval '1 s', $1, $2, 'work', '{}' from generate_series(1, 50000) n`,
    [hands.lane, hands.queueId],
  );
  expect(await desired("deep", 1)).toBe(10_001);
});

it("is answered to a role that may do nothing else", async () => {
  const role = await Role.create(bench);
  try {
    await role.grant("usage on schema jobs");
    await many(25);
    const { Client } = (await import("pg")).default;
    const client = new Client(role.url);
    await client.connect();
    const { rows } = await client.query(`select ${bench.schema}.desired_workers('scaled') as n`);
    expect(rows).toEqual([{ n: 3 }]);
    await expect(client.query(`select * from ${bench.schema}.job`)).rejects.toMatchObject({
      code: "42501",
    });
    await client.end();
  } finally {
    await role.drop();
  }
});
