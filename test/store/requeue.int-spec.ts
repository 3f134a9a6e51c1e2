import type { JobQueue } from "nestjs-pg-jobs";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import type { Runner } from "../../libs/jobs/src/pg/statement.js";
import { requeue } from "../../libs/jobs/src/store/transitions/requeue.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { applyQueueSettings } from "../../libs/jobs/src/store/queues/settings.js";
import { archiveDead } from "../../libs/jobs/src/store/upkeep/dead-letters.js";
import { onTransaction } from "../../libs/jobs/src/queue/transaction.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// A person sends a dead letter again: the same job, a new generation.

let bench: Bench;
let jobs: JobQueue;
let hands: Hands;
let worker: number;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
  hands = await Hands.open(bench);
  worker = await hands.worker();
});
afterAll(async () => await bench.close());
beforeEach(
  async () => void (await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.attempt_error")),
);

const report = (message: string) => JSON.stringify({ name: "Error", message });

/** A job that failed once, was taken over once, and then died. */
async function letter(key?: string): Promise<string> {
  const id = await hands.add({ key: key ?? null, payload: '{"n":1}', attempts: 2 });
  await hands.claim(worker);
  await retry(hands.session, hands.queueId, worker, [
    { id, attempt: 1, delayMs: 0, error: report("first") },
  ]);
  await hands.claim(worker);
  await hands.expire(id);
  await hands.claim(worker, { takeOver: true });
  await bury(hands.session, hands.queueId, worker, [
    { id, attempt: 3, error: report("second"), reason: "exhausted", failed: true },
  ]);
  expect(await bench.state(hands.named(id))).toBe("dead");
  return id;
}

describe("a dead letter", () => {
  it("keeps every error it had", async () => {
    const [row] = await bench.sql<{ errors: unknown; crashes: number; failures: number }>(
      "select errors, crashes, failures, reason from jobs.dead where id = $1",
      [await letter()],
    );
    expect(row).toMatchObject({ crashes: 1, failures: 2, reason: "exhausted" });
    expect(row!.errors).toMatchObject([
      { attempt: 1, error: { message: "first" }, startedAt: expect.any(String) },
      { attempt: 3, error: { message: "second" }, failedAt: expect.any(String) },
    ]);
  });

  it("goes back to its queue with its attempt number, and failures and crashes at 0", async () => {
    const id = await letter();
    const before = await jobs.get(hands.named(id));
    expect(await jobs.requeue(hands.named(id))).toBe("queued");
    expect(await jobs.get(hands.named(id))).toMatchObject({
      id: hands.named(id),
      state: "queued",
      attempt: 3,
      failures: 0,
      attempts: 2,
      payload: { n: 1 },
      lastError: null,
      finishedAt: null,
      createdAt: before!.createdAt,
    });
    const [row] = await bench.sql("select crashes, generation, lease_until from jobs.job");
    expect(row).toEqual({ crashes: 0, generation: 2, lease_until: null });
    const [claim] = await hands.claim(worker);
    expect(claim).toMatchObject({ id, attempt: 4, failures: 0 });
    expect(await bench.sql("select 1 from jobs.dead")).toEqual([]);
  });

  it.each([{ n: 2 }, null, [], "text", 0, false])("can get the payload %p", async (payload) => {
    const id = hands.named(await letter());
    expect(await jobs.requeue(id, { payload })).toBe("queued");
    expect((await jobs.get(id))!.payload).toEqual(payload);
  });

  it("waits while another job has its key", async () => {
    const id = hands.named(await letter("k"));
    const holder = await jobs.enqueue("work", {}, { key: "k" });
    expect(holder.deduplicated).toBe(false);
    expect(await jobs.requeue(id)).toBe("key-taken");
    expect(await bench.state(id)).toBe("dead");
    await bench.sql("delete from jobs.job");
    expect(await jobs.requeue(id)).toBe("queued");
    expect(await jobs.enqueue("work", {}, { key: "k" })).toEqual({ id, deduplicated: true });
  });

  it("is made one job by people who requeue it at once", async () => {
    const other = await bench.producer();
    for (let round = 0; round < 20; round++) {
      const id = hands.named(await letter());
      const answers = await Promise.all([jobs.requeue(id), other.requeue(id)]);
      expect(answers.sort()).toEqual(["not-requeueable", "queued"]);
      await bench.sql("truncate jobs.job");
    }
  });

  it("is not requeued by somebody who was slow, after it has been run", async () => {
    const id = await letter();
    // Two people; the first has not committed yet when the second looks.
    const client = await bench.client();
    await client.query("begin");
    await client.query(`select 1 from ${bench.schema}.dead for update`);
    const slow = jobs.requeue(hands.named(id));
    const blocked =
      "select 1 from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0";
    await until(async () => (await bench.sql(blocked)).length, { what: "the second waits" });
    await client.query(
      `with d as (delete from ${bench.schema}.dead where id = ${id} returning *)
       insert into ${bench.schema}.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, state)
       select id, created_at, run_at, attempt + 1, queue_id, 0, lane, generation + 1, kind, 1 from d`,
    );
    await client.query("commit");
    client.release();
    expect(await slow).toBe("not-requeueable");
    expect(await bench.states()).toEqual({ succeeded: 1 });
  });

  it("is requeued though it goes to the archive at that moment", async () => {
    const settings = { history: "exceptions", archiveDeadMs: 60_000, pruneDeadMs: null } as const;
    await applyQueueSettings(hands.session, hands.queueId, settings);
    const id = await letter();
    await bench.age(hands.named(id), "1 hour");
    const client = await bench.client();
    await client.query("begin");
    await archiveDead(onTransaction(client, bench.schema), hands.queueId);
    const meeting = jobs.requeue(hands.named(id), { payload: { n: 2 } });
    const blocked =
      "select 1 from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0";
    await until(async () => (await bench.sql(blocked)).length, { what: "the request waits" });
    await client.query("commit");
    client.release();
    expect(await meeting).toBe("queued");
    expect(await jobs.get(hands.named(id))).toMatchObject({ state: "queued", payload: { n: 2 } });
    expect(await bench.sql("select from jobs.dead_archive")).toEqual([]);
  });

  it.each([null, "k"])(
    "that died again after the look, with the key %p, is not requeueable",
    async (key) => {
      const id = await letter(key ?? undefined);
      expect(await jobs.requeue(hands.named(id))).toBe("queued");
      // It runs when the request looks for a letter, and dies before the request asks where it is.
      await hands.claim(worker);
      const dyingBetween: Runner = {
        run: async (statement, values) => {
          const rows = await hands.session.run(statement, values);
          if (statement.name === "requeue")
            await bury(hands.session, hands.queueId, worker, [
              { id, attempt: 4, error: report("again"), reason: "exhausted", failed: true },
            ]);
          return rows;
        },
      };
      expect(await requeue(dyingBetween, hands.queueId, id, null)).toMatchObject({
        answer: "not-requeueable",
      });
      expect(await bench.state(hands.named(id))).toBe("dead");
      expect(await jobs.requeue(hands.named(id))).toBe("queued");
    },
  );
});

describe("requeue of any other job", () => {
  it.each(["queued", "running", "succeeded"])("that is %s is refused", async (state) => {
    const { id } = await jobs.enqueue("work", {});
    if (state !== "queued") await hands.claim(worker);
    if (state === "succeeded")
      await bench.sql(
        `with mine as (delete from jobs.job returning *)
         insert into jobs.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, state)
         select id, created_at, run_at, 1, queue_id, 0, lane, 1, kind, 1 from mine`,
      );
    expect(await jobs.requeue(id)).toBe("not-requeueable");
    expect(await bench.states()).toEqual({ [state]: 1 });
  });

  it("that is cancelled goes back", async () => {
    const { id } = await jobs.enqueue("work", { n: 1 });
    await bench.sql(
      `with mine as (delete from jobs.job returning *)
       insert into jobs.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, payload, state)
       select id, created_at, run_at, 0, queue_id, 0, lane, 1, kind, payload, 3 from mine`,
    );
    expect(await jobs.requeue(id)).toBe("queued");
    expect(await jobs.get(id)).toMatchObject({ state: "queued", payload: { n: 1 } });
    expect(await bench.states()).toEqual({ queued: 1 });
  });

  it("that nobody knows is unknown; what is no id is refused", async () => {
    expect(await jobs.requeue(`${hands.queueId}-999999999`)).toBe("unknown");
    expect(await jobs.requeue("999-1")).toBe("unknown");
    await expect(jobs.requeue("nonsense")).rejects.toMatchObject({ code: "JOB_ID_INVALID" });
    await expect(jobs.requeue("1-1", { paylod: 1 } as never)).rejects.toMatchObject({
      code: "OPTIONS_INVALID",
    });
    await expect(jobs.requeue("1-1", { payload: { n: NaN } })).rejects.toMatchObject({
      code: "PAYLOAD_NOT_JSON",
    });
  });
});
