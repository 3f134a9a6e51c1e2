import { type JobQueue, defineJob } from "nestjs-pg-jobs";
import { z } from "zod";
import { Bench } from "../support/harness.js";

// One job and many, now and later: what is stored is what was said.

let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.job")));

/** `wait` to half a second: the row is of the transaction's time, its turn of the statement's, a little later. */
const stored = async (id: string) =>
  (
    await bench.sql(
      `select s.kind, s.queue, s.priority, s.payload, s.attempts, s.key, j.timeout_ms,
         round(extract(epoch from j.run_at - j.created_at)::numeric * 2) / 2::float8 as wait
       from jobs.job_status s join jobs.job j on j.id = s.number and j.queue_id = s.queue_id where s.id = $1`,
      [id],
    )
  )[0];
const plain = {
  queue: "default",
  priority: 0,
  payload: {},
  attempts: null,
  key: null,
  timeout_ms: null,
};
const count = async () =>
  (await bench.sql<{ n: number }>("select count(*)::int as n from jobs.job"))[0]!.n;

describe("enqueue", () => {
  it("stores what was said, and null where nobody said anything", async () => {
    const { id, deduplicated } = await jobs.enqueue("plain");
    expect(deduplicated).toBe(false);
    expect(await stored(id)).toEqual({ kind: "plain", ...plain, wait: 0 });
  });

  it("lets the call win over the definition, and stores no module default", async () => {
    const Said = defineJob("said", { queue: "mail", priority: 3, attempts: 6, timeout: "1m" });
    const others = await bench.producer({ defaults: { attempts: 9, timeout: "9m" } });
    const defined = { ...plain, kind: "said", queue: "mail", priority: 3, attempts: 6 };
    const { id } = await others.enqueue(Said, {});
    expect(await stored(id)).toMatchObject({ ...defined, timeout_ms: "60000" });
    const call = { queue: "other", priority: -100, attempts: 1, timeout: 5 };
    const { id: called } = await others.enqueue(Said, {}, call);
    expect(await stored(called)).toMatchObject({
      queue: "other",
      priority: -100,
      attempts: 1,
      timeout_ms: "5",
    });
    const { id: silent } = await others.enqueue("silent", {});
    expect(await stored(silent)).toMatchObject({ attempts: null, timeout_ms: null });
  });

  it.each<[number | string, number]>([
    [0, 0],
    [1_500, 1.5],
    ["10m", 600],
    ["3650d", 315_360_000],
  ])("waits a delay of %p", async (delay, wait) => {
    const { id } = await jobs.enqueue("work", {}, { delay });
    expect((await stored(id))!.wait).toBe(wait);
  });

  it("runs at a time, to the millisecond, in the past as well", async () => {
    for (const at of [
      new Date("2031-02-03T04:05:06.789Z"),
      new Date(0),
      new Date("9999-12-31T23:59:59.999Z"),
    ]) {
      const { id } = await jobs.enqueue("work", {}, { at });
      expect((await jobs.get(id))!.runAt).toBe(at.toISOString());
    }
  });

  it("stores the value that was given, not what the schema makes of it", async () => {
    const Typed = defineJob("typed", {
      payload: z.object({ at: z.string().transform((s) => new Date(s)) }),
    });
    const { id } = await jobs.enqueue(Typed, { at: "2030-01-01" });
    expect((await jobs.get(id))!.payload).toEqual({ at: "2030-01-01" });
  });

  it("is not changed by what the caller does to the payload afterwards", async () => {
    const payload = { list: [1] };
    const call = jobs.enqueue("work", payload);
    payload.list.push(2);
    expect((await jobs.get((await call).id))!.payload).toEqual({ list: [1] });
  });
});

describe("enqueueMany", () => {
  it("answers in the order of its items, each with its options over the shared ones", async () => {
    const answers = await jobs.enqueueMany(
      "work",
      [
        { n: 0 },
        { payload: { n: 1 }, priority: 5 },
        { payload: { n: 2 }, queue: "other", delay: "1h" },
        { payload: { payload: { n: 3 }, not: "an option" } },
        { payload: undefined },
        [4],
        { payload: 5, priority: undefined, attempts: undefined },
      ],
      { priority: 1, attempts: 2 },
    );
    const rows = await Promise.all(answers.map(async ({ id }) => await stored(id)));
    expect(rows.map((row) => [row!.payload, row!.priority, row!.queue, row!.attempts])).toEqual([
      [{ n: 0 }, 1, "default", 2],
      [{ n: 1 }, 5, "default", 2],
      [{ n: 2 }, 1, "other", 2],
      [{ payload: { n: 3 }, not: "an option" }, 1, "default", 2],
      [{}, 1, "default", 2],
      [[4], 1, "default", 2],
      [5, 1, "default", 2],
    ]);
    expect(rows[2]!.wait).toBe(3_600);
  });

  it("takes thousands, in several queues, in order", async () => {
    const items = Array.from({ length: 4_500 }, (_, n) => ({ payload: n, queue: `q${n % 3}` }));
    const answers = await jobs.enqueueMany("work", items);
    const rows = await bench.sql<{ id: string; payload: number; queue: string }>(
      "select id, payload, queue from jobs.job_status",
    );
    const seen = new Map(rows.map(({ id, ...row }) => [id, row]));
    expect(answers.map(({ id }) => seen.get(id))).toEqual(items);
  });

  it.each([10, 2_500])("of %p items is all or nothing", async (size) => {
    await bench.sql("alter table jobs.job add constraint poison check (payload <> '\"poison\"')");
    try {
      for (const options of [{}, { queue: "q" }]) {
        const items = Array.from({ length: size }, (_, n) => ({
          payload: n === size - 2 ? "poison" : n,
          ...(n % 2 ? options : { key: `${n}` }),
        }));
        await expect(jobs.enqueueMany("work", items)).rejects.toThrow(/poison/);
        expect(await count()).toBe(0);
      }
    } finally {
      await bench.sql("alter table jobs.job drop constraint poison");
    }
  });

  it("names the bad item, and writes nothing", async () => {
    const bad = [
      [1, 2, { x: NaN }],
      [1, 2, { payload: 1, delay: "soon" }],
      [1, 2, { payload: 1, priority: 1_000 }, { y: 2n }],
    ];
    for (const items of bad) {
      const error = await jobs.enqueueMany("work", items).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ index: 2 });
    }
    expect(await count()).toBe(0);
  });
});

describe("ids", () => {
  it("are unique over processes, ascend in each, and no call burns a queue or lane id", async () => {
    const processes = [jobs, await bench.producer(), await bench.producer()];
    const before = await numbers();
    const made = await Promise.all(
      processes.map(async (one) => {
        const ids: string[] = [];
        for (let n = 0; n < 40; n++) {
          const many = await one.enqueueMany("work", Array.from({ length: n }), { key: undefined });
          const single = await one.enqueue("work", {}, { queue: "default" });
          ids.push(...many.map(({ id }) => id), single.id);
        }
        return ids.map((id) => Number(id.split("-")[1]));
      }),
    );
    for (const ids of made) expect(ids).toEqual(ids.toSorted((a, b) => a - b));
    expect(new Set(made.flat()).size).toBe(3 * (780 + 40));
    expect(await numbers()).toEqual(before);
    // A new queue and a new lane get the next number each, however many have used the old ones.
    await jobs.enqueue("fresh", {}, { queue: "fresh" });
    const after = await numbers();
    expect(after).toEqual({
      queues: before.queues + 1,
      lanes: before.lanes + 1,
      top: before.top + 1,
    });
  });

  it("of a queue that many use first at once are one", async () => {
    const processes = await Promise.all(
      Array.from({ length: 4 }, async () => await bench.producer()),
    );
    const answers = await Promise.all(
      processes.flatMap((one) =>
        Array.from({ length: 10 }, async (_, n) => one.enqueue(`kind ${n}`, {}, { queue: "rush" })),
      ),
    );
    expect(new Set(answers.map(({ id }) => id.split("-")[0])).size).toBe(1);
    const lanes = await bench.sql<{ id: number }>(
      "select l.id from jobs.lane l join jobs.queue q on q.id = queue_id where name = 'rush' order by 1",
    );
    expect(lanes.map(({ id }) => id)).toEqual(Array.from({ length: 10 }, (_, n) => n));
  });
});

async function numbers(): Promise<{ queues: number; lanes: number; top: number }> {
  const [row] = await bench.sql<{ queues: number; lanes: number; top: number }>(
    `select (select count(*)::int from jobs.queue) as queues, (select count(*)::int from jobs.lane) as lanes,
       (select max(id) from jobs.queue) as top`,
  );
  return row!;
}
