import { type Enqueued, JobInspector, JobQueue, KeyLockedError } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// A key is unique per queue and kind while its job is queued or running.

let bench: Bench;
let jobs: JobQueue;
let hands: Hands;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
  hands = await Hands.open(bench);
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.job, jobs.done, jobs.dead")));

const count = async () =>
  (await bench.sql<{ n: number }>("select count(*)::int as n from jobs.job_status"))[0]!.n;
const number = ({ id }: Enqueued) => id.split("-")[1]!;

async function run(job: Enqueued): Promise<void> {
  await bench.sql(
    `with mine as (delete from jobs.job where id = $1 returning *)
     insert into jobs.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, key, state)
     select id, created_at, run_at, 1, queue_id, 0, lane, 1, kind, key, 1 from mine`,
    [number(job)],
  );
}

/** A stranger's transaction that has enqueued the key and not ended. */
async function stranger(key: string): Promise<{ end(): Promise<void> }> {
  const client = await bench.client();
  await client.query("begin");
  await jobs.in(client).enqueue("work", {}, { key });
  return {
    end: async () => {
      await client.query("rollback");
      client.release();
    },
  };
}

describe("a key", () => {
  it("answers with the job that holds it, queued or running", async () => {
    const first = await jobs.enqueue("work", { n: 1 }, { key: "k" });
    const again = await jobs.enqueue("work", { n: 2 }, { key: "k" });
    expect(again).toEqual({ id: first.id, deduplicated: true });
    await hands.claim(await hands.worker());
    expect(await bench.state(first.id)).toBe("running");
    expect(await jobs.enqueue("work", {}, { key: "k" })).toEqual(again);
    expect((await jobs.get(first.id))!.payload).toEqual({ n: 1 });
    expect(await count()).toBe(1);
  });

  it("is free again when its job has finished", async () => {
    const first = await jobs.enqueue("work", {}, { key: "k" });
    await run(first);
    const second = await jobs.enqueue("work", {}, { key: "k" });
    expect(second.deduplicated).toBe(false);
    expect(second.id).not.toBe(first.id);
  });

  it("is free again when its job is dead", async () => {
    const first = await jobs.enqueue("work", {}, { key: "k" });
    const worker = await hands.worker();
    await hands.claim(worker);
    const { bury } = await import("../../libs/jobs/src/store/transitions/bury.js");
    const letter = { id: number(first), attempt: 1, error: "{}", reason: "buried" } as const;
    await bury(hands.session, hands.queueId, worker, [{ ...letter, failed: true }]);
    expect(await bench.state(first.id)).toBe("dead");
    expect(await jobs.enqueue("work", {}, { key: "k" })).toMatchObject({ deduplicated: false });
  });

  it("is another one in another kind or queue", async () => {
    const all = [
      await jobs.enqueue("work", {}, { key: "k" }),
      await jobs.enqueue("other", {}, { key: "k" }),
      await jobs.enqueue("work", {}, { key: "k", queue: "elsewhere" }),
      await jobs.enqueue("work", {}, { key: "K" }),
      await jobs.enqueue("work", {}, { key: "k " }),
    ];
    expect(all.every(({ deduplicated }) => !deduplicated)).toBe(true);
    // The priority is not part of it.
    expect(await jobs.enqueue("work", {}, { key: "k", priority: 9 })).toEqual({
      id: all[0]!.id,
      deduplicated: true,
    });
  });

  it("given twice in one call: the first item wins", async () => {
    const held = await jobs.enqueue("work", { n: "held" }, { key: "held" });
    const answers = await jobs.enqueueMany("work", [
      { payload: { n: 1 }, key: "b" },
      { n: 2 },
      { payload: { n: 3 }, key: "held" },
      { payload: { n: 4 }, key: "a" },
      { payload: { n: 5 }, key: "b", priority: 50 },
    ]);
    expect(answers.map((one) => one.deduplicated)).toEqual([false, false, true, false, true]);
    expect(answers[2]!.id).toBe(held.id);
    expect(answers[4]!.id).toBe(answers[0]!.id);
    const payloads = await Promise.all(
      answers.map(async ({ id }) => (await jobs.get(id))!.payload),
    );
    expect(payloads).toEqual([{ n: 1 }, { n: 2 }, { n: "held" }, { n: 4 }, { n: 1 }]);
    expect(await count()).toBe(4);
  });

  it("of 100 callers in two processes makes one job", async () => {
    const other = await bench.producer();
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, n) =>
        (n % 2 ? jobs : other).enqueue("work", { n }, { key: "k" }),
      ),
    );
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect(await count()).toBe(1);
  });

  it("never lets two processes wait for one another", async () => {
    const other = await bench.producer();
    for (const queues of [["one"], ["one", "two"]]) {
      const took: number[] = [];
      const alone: number[] = [];
      for (let round = 0; round < 8; round++) {
        const keys = Array.from({ length: 800 }, (_, n) => ({
          payload: {},
          key: `${round}-${n}`,
          queue: queues[n % queues.length]!,
        }));
        const started = performance.now();
        const [forth, back] = await Promise.all([
          jobs.enqueueMany("work", keys),
          other.enqueueMany("work", keys.toReversed()),
        ]);
        took.push(performance.now() - started);
        const again = performance.now();
        await jobs.enqueueMany("work", keys.toReversed());
        await other.enqueueMany("work", keys);
        alone.push(performance.now() - again);
        expect(back.toReversed().map(({ id }) => id)).toEqual(forth.map(({ id }) => id));
      }
      // PostgreSQL finds a deadlock after a second; it would be resolved, but nearly every round would have one.
      const median = (times: number[]) => times.sort((a, b) => a - b)[4]!;
      expect(median(took)).toBeLessThan(900 + median(alone));
      await bench.sql("truncate jobs.job");
    }
  });
});

describe("a key in a stranger's open transaction", () => {
  it("is refused after two seconds; a batch with others does not hurt them", async () => {
    const held = await stranger("held");
    const started = performance.now();
    const calls = [1, 2, 3].map(async (n) => jobs.enqueue("work", {}, { key: `free-${n}` }));
    const locked = jobs.enqueue("work", {}, { key: "held" });
    await expect(locked).rejects.toThrow(KeyLockedError);
    await expect(locked).rejects.toMatchObject({ code: "KEY_LOCKED" });
    expect(performance.now() - started).toBeGreaterThan(1_900);
    expect(performance.now() - started).toBeLessThan(20_000);
    await expect(Promise.all(calls)).resolves.toHaveLength(3);
    expect(await count()).toBe(3);
    await held.end();
    await expect(jobs.enqueue("work", {}, { key: "held" })).resolves.toMatchObject({
      deduplicated: false,
    });
  });

  it("is refused as one in the caller's own transaction, too, when that does not wait longer", async () => {
    const held = await stranger("theirs");
    const client = await bench.client();
    await client.query("begin; set local lock_timeout = '100ms'");
    const refused = jobs.in(client).enqueue("work", {}, { key: "theirs" });
    await expect(refused).rejects.toThrow(/key of this job of kind "work"/);
    await client.query("rollback");
    client.release();
    await held.end();
  });

  it("and no other lock, is what is named: a table that somebody has locked holds no key", async () => {
    const app = await bench.app([bench.root()]);
    const { id } = await jobs.enqueue("work", {}, { delay: "1h" });
    const client = await bench.client();
    await client.query("begin");
    await client.query(`lock table ${bench.schema}.job in access exclusive mode`);
    const list = app.get(JobInspector).list();
    const calls: [Promise<unknown>, string][] = [
      [jobs.enqueue("work", {}), "No job was created. "],
      [jobs.enqueue("work", {}, { key: "k" }), "No job was created. "],
      [app.get(JobQueue).enqueue("work", {}, { key: "k", window: "1h" }), "No job was created. "],
      [jobs.cancel(id), "The job was not cancelled. "],
      [list, ""],
    ];
    const settled = await Promise.allSettled(calls.map(([call]) => call));
    expect(settled.map((one) => String((one as PromiseRejectedResult).reason))).toEqual(
      calls.map(
        ([, consequence]) =>
          "DatabaseUnavailableError: Expected an answer of the database, found that another open transaction, or a " +
          `migration, has locked what it needs. ${consequence}End that transaction sooner, or repeat the call.`,
      ),
    );
    await client.query("rollback");
    client.release();
  });

  it("refuses the whole of a list, even when its first statement has passed", async () => {
    const { proxy, url } = await bench.line();
    const far = await bench.producer({ connection: { url }, notify: false });
    const holder = await jobs.enqueue("work", {}, { key: "later" });
    await far.enqueue("work", {}, { key: "warm" });
    proxy.muteFrom("enqueue_unless_there", "on conflict do nothing");
    const list = far.enqueueMany("work", [
      { payload: {}, key: "free" },
      { payload: {}, key: "later" },
    ]);
    list.catch(() => undefined);
    await until(() => proxy.held > 0, { what: "the first statement has been answered" });
    // The holder of the refused key is gone before it is looked up, and a stranger has the key.
    await run(holder);
    const held = await stranger("later");
    proxy.setMode("pass");
    await expect(list).rejects.toThrow(KeyLockedError);
    expect(await bench.sql("select id from jobs.job where key = 'free'")).toEqual([]);
    await held.end();
  });

  it("is refused, not tried for ever, when the id of its job is taken", async () => {
    await jobs.enqueue("work", {}, { key: "one" });
    const [{ id }] = (await bench.sql("select min(id)::text as id from jobs.job")) as [
      { id: string },
    ];
    // As after a failover that lost the end of the sequence.
    const restored = await bench.producer({ notify: false });
    await bench.sql("select setval('jobs.job_id', $1, false)", [id]);
    await expect(restored.enqueue("work", {}, { key: "two" })).rejects.toThrow("has gone back");
    await bench.sql("select setval('jobs.job_id', 1000001)");
    await expect(jobs.enqueue("work", {}, { key: "three" })).resolves.toMatchObject({
      deduplicated: false,
    });
  });

  it("long lists of the same keys in another order do not wait for one another", async () => {
    const other = await bench.producer({ notify: false });
    await other.enqueue("work", {});
    for (let round = 0; round < 3; round++) {
      const list = Array.from({ length: 2_500 }, (_, i) => ({
        payload: {},
        key: `${round} ${String(i).padStart(4, "0")}`,
      }));
      const answers = await Promise.all([
        jobs.enqueueMany("work", list),
        other.enqueueMany("work", list.toReversed()),
      ]);
      expect(answers[0].map(({ id }) => id)).toEqual(answers[1].map(({ id }) => id).toReversed());
    }
  });

  it("a list that was the victim of a deadlock with a stranger's transaction is sent again", async () => {
    const client = await bench.client();
    const [one, two] = ["one", "two"].map((queue) => ({ payload: {}, queue, key: "same" }));
    await jobs.enqueueMany(
      "work",
      [one!, two!].map((item) => ({ ...item, key: "before" })),
    );
    await client.query("begin; set local deadlock_timeout = '10s'");
    const theirs = await jobs.in(client).enqueue("work", {}, { queue: "two", key: "same" });
    const list = jobs.enqueueMany("work", [one!, two!]);
    const waits = async () =>
      (
        await bench.sql(
          "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and application_name like 'pg-jobs front%'",
        )
      ).length > 0;
    await until(waits, { what: "the list waits for the key of queue two" });
    // Now each waits for the other.
    const crossed = jobs.in(client).enqueue("work", {}, { queue: "one", key: "same" });
    const mine = await crossed;
    await client.query("commit");
    client.release();
    expect((await list).map(({ id }) => id)).toEqual([mine.id, theirs.id]);
  });
});
