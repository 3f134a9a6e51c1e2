import { JobQueue } from "nestjs-pg-jobs";
import { Statement } from "../../libs/jobs/src/pg/statement.js";
import { cancel } from "../../libs/jobs/src/store/transitions/cancel.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { prune } from "../../libs/jobs/src/store/upkeep/control.js";
import {
  type RequestedCancel,
  forgetCancels,
  requestedCancels,
} from "../../libs/jobs/src/store/workers/control.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { explaining } from "../support/plans.js";

// The rows by which a worker hears that its jobs are to end: who writes, reads and removes them.

let bench: Bench;
let hands: Hands;
let worker: number;
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  worker = await hands.worker();
});
afterAll(async () => await bench.close());
beforeEach(async () => await bench.sql("truncate jobs.job, jobs.control"));

const rows = async () =>
  (await requestedCancels(hands.session, [worker])).sort((a, b) => a.attempt - b.attempt);
const cancelled = async (id: string) =>
  await cancel(hands.session, hands.queueId, id, { control: true });
const of = (id: string, attempt = 1): RequestedCancel => ({
  worker,
  queueId: hands.queueId,
  id,
  attempt,
});
const claimed = async () => {
  const id = await hands.add();
  await hands.claim(worker);
  return id;
};

describe("a cancel", () => {
  it("of a running job leaves one row for its worker, however often it is repeated", async () => {
    const id = await claimed();
    for (let n = 0; n < 3; n++)
      expect(await cancelled(id)).toMatchObject({ answer: "requested", worker });
    expect(await rows()).toEqual([of(id)]);
  });

  it("by ten people at once leaves one row", async () => {
    const id = await claimed();
    const sessions = Array.from({ length: 10 }, () => bench.session());
    await Promise.all(sessions.map((one) => cancel(one, hands.queueId, id, { control: true })));
    expect(await rows()).toEqual([of(id)]);
  });

  it("of a job that waits, or whose lease is over, leaves none", async () => {
    const waits = await hands.add({ at: new Date(Date.now() + 60_000) });
    expect(await cancelled(waits)).toMatchObject({ answer: "cancelled", worker: null });
    const expired = await claimed();
    await hands.expire(expired);
    expect(await cancelled(expired)).toMatchObject({ answer: "cancelled", worker: null });
    expect(await rows()).toEqual([]);
  });

  it("that is rolled back leaves none; NOTIFY is no part of its transaction", async () => {
    const id = await claimed();
    const jobs: JobQueue = await bench.producer();
    const client = await bench.client();
    const heard: unknown[] = [];
    const listener = await bench.client();
    listener.on("notification", (word) => heard.push(word.payload));
    await listener.query(`listen "${bench.schema}:wake"`);
    try {
      await client.query("begin");
      expect(await jobs.in(client).cancel(hands.named(id))).toBe("requested");
      expect(await rows()).toEqual([]);
      await listener.query("select 1");
      expect(heard).toEqual([]);
    } finally {
      await client.query("rollback");
    }
    expect(await rows()).toEqual([]);
    await client.query("begin");
    expect(await jobs.in(client).cancel(hands.named(id))).toBe("requested");
    await client.query("commit");
    client.release();
    listener.release(true);
    expect(await rows()).toEqual([of(id)]);
  });

  it("in repeatable read is written too, also when it was before", async () => {
    const id = await claimed();
    await cancelled(id);
    const jobs = await bench.producer();
    const client = await bench.client();
    await client.query("begin isolation level repeatable read");
    expect(await jobs.in(client).cancel(hands.named(id))).toBe("requested");
    await client.query("commit");
    client.release();
    expect(await rows()).toEqual([of(id)]);
  });

  it("for a process that does not know the table writes none", async () => {
    const id = await claimed();
    const answer = await cancel(hands.session, hands.queueId, id);
    expect(answer).toMatchObject({ answer: "requested", worker: null });
    expect(await rows()).toEqual([]);
  });
});

describe("a worker", () => {
  it("reads its own, under all of its ids", async () => {
    const ids = [worker, await hands.worker(), await hands.worker()];
    for (const [n, one] of ids.entries())
      await bench.sql("insert into jobs.control values ($1, $2, $3, 1)", [one, hands.queueId, n]);
    const read = await requestedCancels(hands.session, ids.slice(0, 2));
    expect(new Set(read.map((one) => one.worker))).toEqual(new Set(ids.slice(0, 2)));
  });

  it("forgets those that it has read, and no other of the same job", async () => {
    await bench.sql("insert into jobs.control select $1, $2, 5, n from generate_series(1, 3) n", [
      worker,
      hands.queueId,
    ]);
    await bench.sql("insert into jobs.control values ($1, $2, 5, 2)", [worker, hands.queueId + 1]);
    await forgetCancels(hands.session, [of("5", 2)]);
    const left = (await rows()).map(({ queueId, attempt }) => [queueId - hands.queueId, attempt]);
    expect(left).toEqual([
      [0, 1],
      [1, 2],
      [0, 3],
    ]);
  });

  it("does both by the key, among many of others", async () => {
    await bench.sql(
      "insert into jobs.control select 100 + n % 100, $1, n, 1 from generate_series(1, 30000) n",
      [hands.queueId],
    );
    await bench.sql("insert into jobs.control values ($1, $2, 5, 1)", [worker, hands.queueId]);
    // Whether it was analysed or not.
    for (const analysed of [false, true]) {
      if (analysed) await bench.sql("analyze jobs.control");
      const { runner, plans } = explaining(bench.session("claim"));
      expect(await requestedCancels(runner, [worker, 900_000])).toEqual([of("5")]);
      await forgetCancels(runner, [of("5", 2)]);
      const nodes = plans.flat();
      expect(nodes.filter((node) => node["Node Type"] === "Seq Scan")).toEqual([]);
      for (const plan of plans)
        expect(plan[0]!["Shared Hit Blocks"] + plan[0]!["Shared Read Blocks"]).toBeLessThan(30);
    }
  });
});

describe("the chore", () => {
  it("removes rows of attempts that are over, and of no others, in steps", async () => {
    const [runs, again, expired, ended] = await hands.addMany(4);
    await hands.claim(worker);
    for (const id of [runs!, again!, expired!, ended!]) await cancelled(id);
    // Somebody else has it, somebody may take it over, it has ended.
    await bench.sql("update jobs.job set attempt = 2 where id = $1", [again]);
    await hands.expire(expired!);
    await succeed(hands.session, hands.queueId, worker, [{ id: ended!, attempt: 1, result: null }]);
    await bench.sql("insert into jobs.control select 9, 9, n, 1 from generate_series(1, 20) n");
    expect(await prune(hands.session, 3)).toBe(22);
    expect(await rows()).toEqual(
      [of(runs!), of(expired!)].sort((a, b) => Number(a.id) - Number(b.id)),
    );
    expect(await prune(hands.session)).toBe(0);
  });

  it("looks jobs up by their key", async () => {
    await bench.sql("insert into jobs.control select 9, 9, n, 1 from generate_series(1, 5000) n");
    await bench.sql(
      `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
       select n, now(), $1, $2, 'work', '{}' from generate_series(1, 5000) n`,
      [hands.lane, hands.queueId],
    );
    const { runner, plans } = explaining(bench.session());
    expect(await prune(runner, 1_000)).toBe(5_000);
    const whole = plans
      .flat()
      .filter((node) => node["Node Type"] === "Seq Scan" && node["Relation Name"] === "job");
    expect(whole).toEqual([]);
  });

  it("is a row that is due every ten minutes", async () => {
    const [chore] = await hands.session.run(
      new Statement(null, (jobs) => `select every from ${jobs}.chore where name = 'control'`),
    );
    expect(chore).toEqual(["00:10:00"]);
  });
});
