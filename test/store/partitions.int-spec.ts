import { ensurePartitions } from "../../libs/jobs/src/store/upkeep/partitions.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { Injectable } from "@nestjs/common";
import { JobHandler, JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// Finished jobs and errors live in daily partitions, made ahead.

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => await bench.close());

const partitions = async () =>
  (
    await bench.sql<{ name: string }>(
      `select inhrelid::regclass::text as name from pg_inherits
       where inhparent = any(array['${bench.schema}.done', '${bench.schema}.attempt_error', '${bench.schema}.event', '${bench.schema}.job_log']::regclass[])
       order by 1`,
    )
  ).map(({ name }) => name.split(".")[1]!);

const day = (ahead: number) =>
  new Date(Date.now() + ahead * 86_400_000).toISOString().slice(0, 10).replaceAll("-", "");

const drop = async (...names: string[]) => {
  for (const name of names) await bench.sql(`drop table jobs.${name}`);
};

describe("partitions", () => {
  it("are there for today and the next seven days, after the migration", async () => {
    const days = Array.from({ length: 8 }, (_, n) => day(n));
    expect(await partitions()).toEqual([
      ...days.map((one) => `attempt_error_${one}`),
      ...days.map((one) => `done_${one}`),
      ...days.map((one) => `event_${one}`),
      ...days.map((one) => `job_log_${one}`),
    ]);
  });

  it("are made once, by however many ask", async () => {
    await drop(`done_${day(0)}`, `attempt_error_${day(3)}`, `done_${day(7)}`);
    const sessions = Array.from({ length: 6 }, () => bench.session());
    const made = await Promise.all(
      sessions.map(async (session) => await ensurePartitions(session)),
    );
    expect(made.reduce((sum, n) => sum + n, 0)).toBe(3);
    expect(await partitions()).toHaveLength(32);
    expect(await ensurePartitions(sessions[0]!)).toBe(0);
    expect(await ensurePartitions(sessions[0]!, 9)).toBe(8);
  });

  it("are made for a month at most, whoever asks", async () => {
    const before = await partitions();
    for (const days of [32, 400, -1, null])
      await expect(bench.sql("select jobs.ensure_partitions($1)", [days])).rejects.toMatchObject({
        code: "22023",
        message: `days: expected 0 to 31, found ${days}`,
      });
    expect(await partitions()).toEqual(before);
    await bench.sql("select jobs.ensure_partitions(31)");
    expect(await partitions()).toHaveLength(4 * 32);
  });

  it("take in one that was detached", async () => {
    const name = `done_${day(2)}`;
    await bench.sql(`alter table jobs.done detach partition jobs.${name}`);
    expect(await ensurePartitions(bench.session())).toBe(1);
    expect(await partitions()).toContain(name);
  });

  it("are used with the index by id, and full rows in a change stream", async () => {
    const [row] = await bench.sql(
      `select (select count(*)::int from pg_index where indrelid = c.oid) as indexes, relreplident as identity
       from pg_class c where oid = '${bench.schema}.done_${day(7)}'::regclass`,
    );
    expect(row).toEqual({ indexes: 1, identity: "f" });
  });

  it("are not missed by settling jobs while others make them", async () => {
    const hands = await Hands.open(bench);
    const worker = await hands.worker();
    const chore = bench.session();
    for (let round = 0; round < 20; round++) {
      await drop(`done_${day(5)}`);
      const id = await hands.add();
      await hands.claim(worker);
      const [done] = await Promise.all([
        succeed(hands.session, hands.queueId, worker, [{ id, attempt: 1, result: null }]),
        ensurePartitions(chore),
      ]);
      expect([...done]).toEqual([id]);
    }
  });

  it("of days to come are not waited for by a worker that starts", async () => {
    await drop(`done_${day(7)}`);
    const client = await bench.client();
    // As ANALYZE does.
    await client.query(
      `begin; lock table only ${bench.schema}.done in share update exclusive mode`,
    );
    const app = await bench.worker([handler("early", () => undefined)]);
    const { id } = await app.get(JobQueue).enqueue("early", {});
    await reached(bench, id, "succeeded");
    await client.query("commit");
    client.release();
    // By now or by the worker's upkeep.
    await ensurePartitions(bench.session());
    expect(await partitions()).toHaveLength(32);
  });

  it("that are missing today are made by the settling worker", async () => {
    @Injectable()
    class Work {
      @JobHandler("work")
      work({ fail }: { fail?: boolean }): void {
        if (fail) throw new Error("boom");
      }
    }
    const app = await bench.worker([Work]);
    const jobs = app.get(JobQueue);
    const first = await jobs.enqueue("work", {});
    await until(async () => (await bench.state(first.id)) === "succeeded", {
      what: "the worker has started, and made what was missing then",
    });
    await drop(`done_${day(0)}`, `attempt_error_${day(0)}`);
    const good = await jobs.enqueue("work", {});
    const bad = await jobs.enqueue("work", { fail: true }, { attempts: 1 });
    await until(async () => (await bench.state(good.id)) === "succeeded", { what: "success" });
    await until(async () => (await bench.state(bad.id)) === "dead", { what: "death" });
    expect(await bench.sql("select attempt from jobs.job_status order by number")).toEqual([
      { attempt: 1 },
      { attempt: 1 },
    ]);
  });
});
