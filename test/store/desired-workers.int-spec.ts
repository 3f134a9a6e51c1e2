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

it("walks no more than 10,000 of a queue, however many wait", async () => {
  const hands = await Hands.open(bench, "deep");
  await bench.sql(
    `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
     select -n, now() - interval '1 s', $1, $2, 'work', '{}' from generate_series(1, 50000) n`,
    [hands.lane, hands.queueId],
  );
  expect(await desired("deep", 1)).toBe(10_000);
});

it("asks for no more than a rate lets start at once", async () => {
  await many(40, "hourly", "rated");
  await many(40, "free", "rated");
  await jobs.queues.limit("rated", { kind: "hourly", rate: { max: 1, per: "1h" } });
  expect(await desired("rated", 1)).toBe(41);
  await jobs.queues.limit("rated", { rate: { max: 7, per: "1m" } });
  expect(await desired("rated", 1)).toBe(7);
});

it("asks for nobody for kinds that those who live do not take", async () => {
  await many(30);
  await many(300, "foreign");
  expect(await desired("scaled", 10)).toBe(33);
  await bench.sql(
    `insert into jobs.worker (host, pid, kinds, slots) values ('a', 1, '{"scaled": ["work"]}', 10)`,
  );
  expect(await desired("scaled", 10)).toBe(3);
  await bench.sql("update jobs.worker set stopped_at = now()");
  expect(await desired("scaled", 10)).toBe(33);
});

it("asks for one for what waits for its key, or is run alone, and for none while that is paused", async () => {
  const ids = await many(2);
  for (const aside of [10_000, 20_000]) {
    await bench.sql(`update jobs.job set lane = lane % 10000 + ${aside}`);
    expect(await desired("scaled")).toBe(1);
  }
  await jobs.queues.pause("scaled");
  expect(await desired("scaled")).toBe(0);
  await jobs.queues.resume("scaled");
  await bench.sql("update jobs.job set run_at = now() + interval '1 hour'");
  expect(await desired("scaled")).toBe(0);
  for (const { id } of ids) await jobs.cancel(id);
});

it("refuses a name that is none", async () => {
  await expect(bench.sql("select jobs.desired_workers(null)")).rejects.toMatchObject({
    code: "22023",
    message: expect.stringContaining("queue: expected a name, found null"),
  });
});

it("costs the same in however many kinds", async () => {
  const hands = await Hands.open(bench, "wide");
  await bench.sql(
    `insert into jobs.lane (queue_id, id, kind, priority)
     select $1, 100 + n, 'kind ' || n, 0 from generate_series(1, 50) n`,
    [hands.queueId],
  );
  await bench.sql(
    `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
     select -n, now() - interval '1 s', 101 + n % 50, $1, 'kind', '{}' from generate_series(1, 200000) n`,
    [hands.queueId],
  );
  const pages = async () => {
    const [row] = await bench.sql<{ plan: { "Shared Hit Blocks": number }[] }>(
      "explain (analyze, buffers, format json) select jobs.desired_workers('wide', 1)",
    );
    const [{ Plan }] = (row as unknown as { "QUERY PLAN": [{ Plan: Record<string, number> }] })[
      "QUERY PLAN"
    ];
    return Plan["Shared Hit Blocks"]! + Plan["Shared Read Blocks"]!;
  };
  await pages();
  // Each row may lie on a page of its own, and is counted once.
  expect(await pages()).toBeLessThan(12_000);
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
