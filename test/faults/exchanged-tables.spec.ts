import { JobQueue, defineJob } from "nestjs-pg-jobs";
import { handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// The tables are exchanged under processes that live on: made anew, or restored from a backup. The same small
// numbers then stand for other queues and lanes. No job may come to a handler of another kind, none may be lost.

const KINDS = ["mail", "charge", "thumb"] as const;
const [Mail, Charge, Thumb] = KINDS.map((kind) => defineJob(kind));

let bench: Bench;
let ran: { by: string; payload: { for: string; n: number } }[];
beforeEach(async () => {
  bench = await Bench.open();
  ran = [];
});
afterEach(async () => await bench.close());

const handlers = () =>
  [Mail!, Charge!, Thumb!].map((definition) =>
    handler(
      definition,
      (payload) =>
        void ran.push({ by: definition.kind, payload: payload as (typeof ran)[0]["payload"] }),
    ),
  );
const worker = async (poll = "200ms") =>
  await bench.worker(handlers(), { poll, queues: { default: {}, bulk: {} } });

const madeAnew = async () => {
  await bench.drop();
  await bench.migrate();
};

let n = 0;
const send = async (queue: Pick<JobQueue, "enqueue">, kind: string, options = {}) =>
  await queue.enqueue(kind, { for: kind, n: ++n }, options);

/** All of these have run, each once, in the handler of its kind; the tables say so too. */
async function served(ids: readonly string[]): Promise<void> {
  for (const id of ids)
    await until(async () => (await bench.state(id)) === "succeeded", { what: `${id} succeeds` });
  expect(ran.filter(({ by, payload }) => by !== payload.for)).toEqual([]);
  expect(await bench.sql("select * from jobs.job")).toEqual([]);
}

describe("the schema is made anew", () => {
  it("under a process that enqueues", async () => {
    const old = await bench.producer();
    for (const kind of KINDS) await send(old, kind);
    await send(old, "mail", { queue: "bulk" });
    await madeAnew();
    const fresh = await bench.producer();
    await send(fresh, "charge", { queue: "bulk" });
    await send(fresh, "thumb");
    await worker();
    const sent = [];
    for (const queue of ["default", "bulk"])
      for (const kind of KINDS) {
        const plain = await send(old, kind, { queue });
        const keyed = await send(old, kind, { queue, key: "k" });
        const windowed = await send(old, kind, { queue, key: "w", window: "1h" });
        sent.push(plain.id, keyed.id, windowed.id);
      }
    sent.push(
      ...(await old.enqueueMany("charge", [{ payload: { for: "charge", n: 0 } }])).map(
        ({ id }) => id,
      ),
    );
    await served(sent);
    expect(ran).toHaveLength(2 + sent.length);
  });

  it("while many calls are under way, of several lanes", async () => {
    const old = await bench.producer();
    for (const kind of KINDS) await send(old, kind);
    await madeAnew();
    const fresh = await bench.producer();
    for (const kind of KINDS.toReversed()) await send(fresh, kind);
    const sent = await Promise.all(
      Array.from({ length: 300 }, async (_, i) => await send(old, KINDS[i % 3]!)),
    );
    expect(new Set(sent.map(({ id }) => id)).size).toBe(300);
    await worker();
    await served(sent.map(({ id }) => id));
    expect(ran).toHaveLength(303);
  });

  it.each(["read committed", "repeatable read"])(
    "and a caller's transaction enqueues, %s",
    async (isolation) => {
      const old = await bench.producer();
      for (const kind of KINDS) await send(old, kind);
      await madeAnew();
      const client = await bench.client();
      await client.query(`begin isolation level ${isolation}`);
      await client.query("select 1 from pg_class limit 1");
      const fresh = await bench.producer();
      await send(fresh, "thumb");
      const inside = old.in(client);
      const sent = [];
      for (const kind of KINDS) sent.push((await send(inside, kind)).id);
      const many = await inside.enqueueMany("mail", [
        { payload: { for: "mail", n: 0 }, queue: "bulk" },
        { payload: { for: "mail", n: 0 }, queue: "default" },
      ] as never[]);
      await client.query("commit");
      client.release();
      await worker();
      await served([...sent, ...many.map(({ id }) => id)]);
      expect(ran).toHaveLength(1 + KINDS.length + many.length);
    },
  );

  it("under a worker", async () => {
    const app = await worker();
    const jobs = app.get(JobQueue);
    for (const kind of KINDS) await served([(await send(jobs, kind)).id]);
    await madeAnew();
    const fresh = await bench.producer();
    const sent = [];
    for (const kind of KINDS.toReversed()) sent.push((await send(fresh, kind)).id);
    for (const kind of KINDS) sent.push((await send(jobs, kind)).id);
    await served(sent);
    expect(ran).toHaveLength(3 + sent.length);
  });
});

it("lanes whose numbers are exchanged between two looks of a worker are found out by its claim", async () => {
  const app = await worker("60s");
  const jobs = app.get(JobQueue);
  for (const kind of ["mail", "charge"]) await served([(await send(jobs, kind)).id]);
  // In one go, and to the version that the worker knows.
  await bench.sql(
    "do $$ begin delete from jobs.lane; insert into jobs.lane values (1, 0, 'charge', 0), (1, 1, 'mail', 0); end $$",
  );
  const fresh = await bench.producer({ notify: false });
  const waiting = [];
  for (const kind of ["charge", "mail"]) waiting.push((await send(fresh, kind)).id);
  // It tells the worker of its own process, which takes what its lanes had been.
  waiting.push((await send(jobs, "charge")).id);
  await served(waiting);
  expect(ran).toHaveLength(5);
});

it("a worker keeps to the names of its queues when their numbers are exchanged", async () => {
  const app = await bench.worker(handlers(), { queues: { default: {} } });
  const jobs = app.get(JobQueue);
  const first = await send(jobs, "mail");
  await served([first.id]);
  const number = (id: string) => id.split("-")[0];
  const bulk = await send(jobs, "mail", { queue: "bulk", delay: "1h" });
  await bench.sql(
    "do $$ begin update jobs.queue set name = 'x' where name = 'default'; update jobs.queue set name = 'default' where name = 'bulk'; update jobs.queue set name = 'bulk' where name = 'x'; end $$",
  );
  const moved = await send(jobs, "mail");
  expect(number(moved.id)).toBe(number(bulk.id));
  await until(async () => (await bench.state(moved.id)) === "succeeded", { what: "it is found" });
  const foreign = await send(jobs, "mail", { queue: "bulk" });
  expect(number(foreign.id)).toBe(number(first.id));
  const last = await send(jobs, "mail");
  await until(async () => (await bench.state(last.id)) === "succeeded", { what: "it goes on" });
  expect(await bench.state(foreign.id)).toBe("queued");
});

it("a restored backup is worked on by those who knew what came after it", async () => {
  const old = await bench.producer();
  await send(old, "mail", { queue: "bulk", delay: "1h" });
  const tables = ["queue", "lane", "job", "worker"];
  for (const table of tables)
    await bench.sql(`create table jobs.kept_${table} as table jobs.${table}`);
  await worker();
  for (const kind of KINDS) await send(old, kind);
  await until(async () => (await bench.states()).succeeded === 3, { what: "all have run" });
  const client = await bench.client();
  await client.query("begin");
  for (const table of tables) {
    await client.query(`delete from ${bench.schema}.${table}`);
    await client.query(
      `insert into ${bench.schema}.${table} overriding system value table ${bench.schema}.kept_${table}`,
    );
  }
  await client.query(
    `select setval(pg_get_serial_sequence('${bench.schema}.queue', 'id'), (select max(id) from ${bench.schema}.queue))`,
  );
  await client.query("commit");
  client.release();
  const fresh = await bench.producer();
  const sent = [];
  for (const from of [fresh, old])
    for (const kind of ["thumb", "charge", "mail"]) sent.push((await send(from, kind)).id);
  for (const id of sent)
    await until(async () => (await bench.state(id)) === "succeeded", { what: `${id} succeeds` });
  expect(ran.filter(({ by, payload }) => by !== payload.for)).toEqual([]);
  expect(await bench.states()).toMatchObject({ queued: 1 });
});

it("a job that an older release has left in a lane of another kind comes to its own handler", async () => {
  const jobs = await bench.producer({ notify: false });
  const [mail, charge, stray] = [
    await send(jobs, "mail"),
    await send(jobs, "charge"),
    await send(jobs, "mail", { priority: 5 }),
  ];
  // Into the lane of charges, which has a priority that no mail was sent with.
  await bench.sql(
    "update jobs.job set kind = 'thumb', payload = '{\"for\": \"thumb\", \"n\": 0}', key = 'k' where queue_id || '-' || id = $1",
    [stray!.id],
  );
  await worker();
  await served([mail!.id, charge!.id, stray!.id]);
  expect(ran.map(({ by }) => by).toSorted()).toEqual(["charge", "mail", "thumb"]);
  const [lane] = await bench.sql("select priority from jobs.lane where kind = 'thumb'");
  expect(lane).toEqual({ priority: 5 });
});
