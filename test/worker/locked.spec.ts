import { jest } from "@jest/globals";
import { Logger } from "@nestjs/common";
import { JobQueue, defineJob } from "nestjs-pg-jobs";
import type pg from "pg";
import { Bench } from "../support/harness.js";
import { handler } from "../support/handlers.js";
import { until } from "../support/until.js";

// A worker starts, and says what it waits for, whatever somebody else's open transaction has locked of its queues.

let bench: Bench;
let client: pg.PoolClient;
const warned: { message: string; params: unknown }[] = [];
beforeEach(async () => {
  bench = await Bench.open();
  client = await bench.client();
  jest.spyOn(Logger.prototype, "warn").mockImplementation((...line: unknown[]) => {
    const [message, params] = line;
    warned.push({ message: String(message), params });
  });
});
afterEach(async () => {
  jest.restoreAllMocks();
  warned.length = 0;
  client.release();
  await bench.close();
});

const work = (queue: string) => handler(defineJob("work", { queue }), () => "done");
const runs = async (jobs: JobQueue, queue: string) => {
  const { id } = await jobs.enqueue("work", {}, { queue });
  await until(async () => (await bench.state(id)) === "succeeded", {
    what: `a job of ${queue} has run`,
    timeout: 40_000,
  });
};
const history = async () =>
  Object.fromEntries(
    (
      await bench.sql<{ name: string; history: string }>("select name, history from jobs.queue")
    ).map(({ name, history: mode }) => [name, mode]),
  );
const started = async () => {
  const jobs = await bench.producer();
  for (const queue of ["one", "two"]) await jobs.enqueue("work", {}, { queue });
};

it("as a reader of the queues, who shares them: it waits for nothing", async () => {
  await started();
  await client.query("begin");
  await client.query(`select * from ${bench.schema}.queue for share`);
  const app = await bench.worker([work("one")], { queues: { one: {}, two: {} } });
  await runs(app.get(JobQueue), "one");
  expect(warned).toEqual([]);
  await client.query("commit");
});

it("as somebody who has locked one of its queues, and makes another: the rest is served and written, these later", async () => {
  await started();
  await client.query("begin");
  await client.query(`select * from ${bench.schema}.queue where name = 'one' for share`);
  await client.query(`select ${bench.schema}.declare('fresh', 'work')`);
  const told = { history: "full" } as const;
  const app = await bench.worker([work("one")], { queues: { fresh: told, one: told, two: told } });
  for (const queue of ["one", "two"]) await runs(app.get(JobQueue), queue);
  expect(await history()).toEqual({ one: "exceptions", two: "full" });
  expect(warned).toEqual([
    { message: expect.stringContaining("served later"), params: { queues: ["fresh"] } },
    { message: expect.stringContaining("written later"), params: { queues: ["one"] } },
  ]);
  await client.query("rollback");
  await runs(app.get(JobQueue), "fresh");
  await until(async () => Object.values(await history()).every((mode) => mode === "full"), {
    what: "everything is written",
    timeout: 40_000,
  });
});

it("when it can have no queue, or no jobs: it says so, and not that the database is away", async () => {
  await client.query("begin");
  await client.query(`select ${bench.schema}.declare('fresh', 'work')`);
  const app = await bench.worker([work("fresh")], { queues: { fresh: {} } });
  const locked = () => warned.filter(({ message }) => message.includes("has locked"));
  await until(() => locked().length > 0, { what: "it says what it waits for" });
  await client.query("commit");
  await runs(app.get(JobQueue), "fresh");
  warned.length = 0;
  await client.query("begin");
  await client.query(`lock table ${bench.schema}.job in access exclusive mode`);
  await until(() => locked().length > 0, { what: "it says what it waits for" });
  await client.query("rollback");
  await runs(app.get(JobQueue), "fresh");
  expect(warned.filter(({ message }) => message.includes("away"))).toEqual([]);
});
