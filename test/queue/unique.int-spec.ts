import {
  type EnqueueOptions,
  type Enqueued,
  type JobQueue,
  SchemaNotReadyError,
} from "nestjs-pg-jobs";
import type pg from "pg";
import { Database } from "../../libs/jobs/src/pg/database.js";
import { enqueueFor } from "../../libs/jobs/src/queue/enqueue-for.js";
import { Hints } from "../../libs/jobs/src/queue/hints.js";
import { LocalWorkers } from "../../libs/jobs/src/queue/local-workers.js";
import { Store } from "../../libs/jobs/src/store/store.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { removeWindows } from "../../libs/jobs/src/store/upkeep/windows.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// Windows of keys, and what becomes of a call whose key is held, through every door.

let bench: Bench;
let jobs: JobQueue;
let hands: Hands;
let worker: number;
let store: Store;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
  hands = await Hands.open(bench);
  worker = await hands.worker();
  store = new Store(new Database({ connectionString: bench.url }, bench.schema, 1));
});
afterAll(async () => {
  await store.session.close();
  await bench.close();
});
beforeEach(
  async () => void (await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.dedup")),
);

const number = ({ id }: Enqueued) => id.split("-")[1]!;
const rows = async () =>
  await bench.sql<{ id: string; state: string; payload: unknown }>(
    "select id, state, payload from jobs.job_status order by number",
  );
const row = async ({ id }: Enqueued) => (await jobs.get(id))!;

async function settle(job: Enqueued, how: "succeed" | "bury"): Promise<void> {
  const [claim] = await hands.claim(worker);
  expect(claim!.id).toBe(number(job));
  const fence = { id: claim!.id, attempt: claim!.attempt };
  if (how === "succeed")
    await succeed(hands.session, hands.queueId, worker, [{ ...fence, result: null }]);
  else
    await bury(hands.session, hands.queueId, worker, [
      { ...fence, error: "{}", reason: "buried", failed: true },
    ]);
}

/** To every window it is so much later. */
const age = async (by: string) =>
  await bench.sql("update jobs.dedup set expires_at = expires_at - $1::interval", [by]);

type Door = (payload: unknown, options: EnqueueOptions) => Promise<Enqueued>;

async function inTransaction(work: (queue: Pick<JobQueue, "enqueue" | "enqueueMany">) => unknown) {
  const client = await bench.client();
  await client.query("begin");
  try {
    return (await work(jobs.in(client))) as Enqueued;
  } finally {
    await client.query("commit");
    client.release();
  }
}

/** As a running attempt does. */
async function child(payload: unknown, options: EnqueueOptions): Promise<Enqueued> {
  const parents = await Hands.open(bench, "parents", "parent");
  await parents.add();
  const [parent] = await parents.claim(worker);
  const hints = new Hints(store, bench.schema, false, new LocalWorkers());
  const answer = await enqueueFor(
    { store, hints, payloadLimit: 1_000 },
    () => parent!,
    "work",
    payload,
    options,
    () => undefined,
  );
  await bench.sql("delete from jobs.job where id = $1", [parent!.id]);
  return answer;
}

const DOORS: Record<string, Door> = {
  enqueue: async (payload, options) => await jobs.enqueue("work", payload, options),
  "enqueueMany, an item": async (payload, options) =>
    (await jobs.enqueueMany("work", [{ payload, ...options }]))[0]!,
  "enqueueMany, shared": async (payload, options) =>
    (await jobs.enqueueMany("work", [payload], options))[0]!,
  "enqueueMany, over several queues": async (payload, options) => {
    const items = [
      { payload: null, queue: "aside" },
      { payload, ...options },
    ];
    const answers = await jobs.enqueueMany("work", items);
    await bench.sql("delete from jobs.job where id = $1", [number(answers[0]!)]);
    return answers[1]!;
  },
  "in(tx).enqueue": async (payload, options) =>
    await inTransaction((queue) => queue.enqueue("work", payload, options)),
  "in(tx).enqueueMany": async (payload, options) =>
    await inTransaction(async (queue) => (await queue.enqueueMany("work", [payload], options))[0]),
  "job.enqueue": child,
};

describe.each(Object.entries(DOORS))("through %s", (_, enqueue) => {
  it("a key with a window is held for so long, also when its job has finished", async () => {
    const options = { key: "k", window: "1h" };
    const first = await enqueue({ n: 1 }, options);
    expect(first.deduplicated).toBe(false);
    expect(await enqueue({ n: 2 }, options)).toEqual({ id: first.id, deduplicated: true });
    await settle(first, "succeed");
    expect(await enqueue({ n: 3 }, options)).toEqual({ id: first.id, deduplicated: true });
    await age("59 minutes");
    expect(await enqueue({ n: 4 }, options)).toEqual({ id: first.id, deduplicated: true });
    expect(await rows()).toEqual([{ id: first.id, state: "succeeded", payload: { n: 1 } }]);
    await age("1 minute");
    const second = await enqueue({ n: 5 }, options);
    expect(second.deduplicated).toBe(false);
    await settle(second, "succeed");
    expect(await enqueue({ n: 6 }, options)).toEqual({ id: second.id, deduplicated: true });
  });

  it("a queued job is replaced as far as was asked, and keeps what it has been through", async () => {
    const later = new Date(Date.now() + 3_600_000);
    const first = await enqueue({ n: 1 }, { key: "k", at: later, attempts: 3 });
    await bench.sql("update jobs.job set attempt = 2, failures = 2");
    const same = { id: first.id, deduplicated: true };

    expect(await enqueue({ n: 2 }, { key: "k", onConflict: "keep" })).toEqual(same);
    expect(await row(first)).toMatchObject({ payload: { n: 1 }, runAt: later.toISOString() });
    expect(await enqueue({ n: 3 }, { key: "k", onConflict: "replace-payload" })).toEqual({
      ...same,
      replaced: true,
    });
    expect(await row(first)).toMatchObject({
      payload: { n: 3 },
      runAt: later.toISOString(),
      attempts: 3,
    });
    const at = new Date(Date.now() + 7_200_000);
    await enqueue({ n: 4 }, { key: "k", at, onConflict: "replace-time", attempts: 9 });
    expect(await row(first)).toMatchObject({
      payload: { n: 3 },
      runAt: at.toISOString(),
      attempts: 3,
    });
    await enqueue({ n: 5 }, { key: "k", onConflict: "replace", attempts: 9, priority: 50 });
    const now = await row(first);
    expect(now).toMatchObject({ payload: { n: 5 }, attempts: 9, attempt: 2, failures: 2 });
    expect(now).toMatchObject({ priority: 0, state: "queued" });
    expect(Date.parse(now.runAt)).toBeLessThan(Date.now() + 1_000);
    expect(await rows()).toHaveLength(1);
  });

  it("a replacement is run, though its job was to be cancelled when an old worker put it back", async () => {
    for (const onConflict of ["replace", "replace-payload", "replace-time"] as const) {
      const first = await enqueue({ n: 1 }, { key: onConflict });
      await hands.claim(worker);
      expect(await jobs.cancel(first.id)).toBe("requested");
      // A worker of the first release knows nothing of the request.
      await bench.sql(
        "update jobs.job set lease_until = null, worker = null, failures = failures + 1, run_at = now() where id = $1",
        [number(first)],
      );
      expect(await enqueue({ n: 2 }, { key: onConflict, onConflict })).toEqual({
        id: first.id,
        deduplicated: true,
        replaced: true,
      });
      const [claim] = await hands.claim(worker);
      expect(claim).toMatchObject({ id: number(first), cancelled: false });
    }
  });

  it("a running or finished job is left as it is, and the answer says so", async () => {
    const options = { key: "k", window: "1h" } as const;
    const first = await enqueue({ n: 1 }, options);
    const [claim] = await hands.claim(worker);
    const trace = await hands.trace(claim!.id);
    const left = { id: first.id, deduplicated: true, replaced: false };
    for (const onConflict of ["replace", "replace-payload", "replace-time"] as const)
      expect(await enqueue({ n: 2 }, { key: "k", onConflict })).toEqual(left);
    expect(await hands.trace(claim!.id)).toBe(trace);
    await hands.expire(claim!.id);
    expect(await enqueue({ n: 2 }, { key: "k", onConflict: "replace" })).toEqual(left);
    const fence = { id: claim!.id, attempt: claim!.attempt, result: null };
    await succeed(hands.session, hands.queueId, worker, [fence]);
    expect(await enqueue({ n: 3 }, { ...options, onConflict: "replace" })).toEqual(left);
    expect(await rows()).toEqual([{ id: first.id, state: "succeeded", payload: { n: 1 } }]);
    expect(await enqueue({ n: 4 }, { key: "k", onConflict: "replace" })).toEqual({
      id: expect.not.stringMatching(`^${first.id}$`) as string,
      deduplicated: false,
    });
  });
});

describe("a window", () => {
  const options = { key: "k", window: "1h" };

  it("is of one queue and kind", async () => {
    const answers = [
      await jobs.enqueue("work", {}, options),
      await jobs.enqueue("other", {}, options),
      await jobs.enqueue("work", {}, { ...options, queue: "elsewhere" }),
    ];
    expect(answers.map(({ deduplicated }) => deduplicated)).toEqual([false, false, false]);
  });

  it("does not shorten the time that the job is unfinished, nor begin anew with each call", async () => {
    const first = await jobs.enqueue("work", {}, { ...options, delay: "1d" });
    await age("2 hours");
    expect(await jobs.enqueue("work", {}, options)).toEqual({ id: first.id, deduplicated: true });
    await bench.sql("update jobs.job set run_at = now()");
    await settle(first, "succeed");
    expect(await jobs.enqueue("work", {}, options)).toMatchObject({ deduplicated: false });
  });

  it("finds the job of a call without one as long as that is unfinished", async () => {
    const plain = await jobs.enqueue("work", {}, { key: "k" });
    expect(await jobs.enqueue("work", {}, options)).toEqual({ id: plain.id, deduplicated: true });
    await settle(plain, "succeed");
    const windowed = await jobs.enqueue("work", {}, options);
    expect(windowed.deduplicated).toBe(false);
    // Calls without a window ask for less.
    await settle(windowed, "succeed");
    expect(await jobs.enqueue("work", {}, { key: "k" })).toMatchObject({ deduplicated: false });
  });

  it("outlasts its job's death; the key alone does not, and then the letter cannot be requeued", async () => {
    const first = await jobs.enqueue("work", {}, options);
    await settle(first, "bury");
    expect(await jobs.enqueue("work", {}, options)).toEqual({ id: first.id, deduplicated: true });
    const second = await jobs.enqueue("work", {}, { key: "k" });
    expect(second.deduplicated).toBe(false);
    expect(await jobs.requeue(first.id)).toBe("key-taken");
    await settle(second, "succeed");
    expect(await jobs.requeue(first.id)).toBe("queued");
    expect(await jobs.enqueue("work", {}, options)).toEqual({ id: first.id, deduplicated: true });
  });

  it("outlasts its job's cancel, which frees the key for others; a requeue brings the job back", async () => {
    const first = await jobs.enqueue("work", {}, options);
    expect(await jobs.cancel(first.id)).toBe("cancelled");
    for (const onConflict of ["keep", "replace"] as const)
      expect(await jobs.enqueue("work", { n: 2 }, { ...options, onConflict })).toMatchObject({
        id: first.id,
        deduplicated: true,
      });
    expect(await jobs.get(first.id)).toMatchObject({ state: "cancelled", payload: {} });
    const second = await jobs.enqueue("work", {}, { key: "k" });
    expect(second.deduplicated).toBe(false);
    await jobs.cancel(second.id);
    expect(await jobs.requeue(first.id)).toBe("queued");
    expect(await jobs.enqueue("work", {}, options)).toEqual({ id: first.id, deduplicated: true });
  });

  it("goes with a rollback", async () => {
    const client = await bench.client();
    await client.query("begin");
    await jobs.in(client).enqueue("work", {}, options);
    await client.query("rollback");
    client.release();
    expect(await jobs.enqueue("work", {}, options)).toMatchObject({ deduplicated: false });
  });

  it("that is over is removed, in batches, by a chore; others stay", async () => {
    const items = Array.from({ length: 25 }, (_, n) => ({ payload: {}, key: `k${n}` }));
    await jobs.enqueueMany("work", items, { window: "1h" });
    await age("2 hours");
    const kept = await jobs.enqueue("work", {}, options);
    expect(await removeWindows(bench.session(), 10)).toBe(25);
    expect(await bench.sql("select job_id::text as id from jobs.dedup")).toEqual([
      { id: number(kept) },
    ]);
    expect(await removeWindows(bench.session(), 10)).toBe(0);
    expect(await bench.sql("select name from jobs.chore where name = 'windows'")).toHaveLength(1);
  });

  it("of 200 callers in two processes makes one job", async () => {
    const other = await bench.producer();
    const answers = await Promise.all(
      Array.from({ length: 200 }, async (_, n) =>
        (n % 2 ? jobs : other).enqueue("work", { n }, options),
      ),
    );
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect(await rows()).toHaveLength(1);
  });

  it("holds while workers finish the job as fast as it comes", async () => {
    const other = await bench.producer({ notify: false });
    let going = true;
    const working = (async () => {
      while (going) {
        const claims = await hands.claim(worker);
        const batch = claims.map(({ id, attempt }) => ({ id, attempt, result: null }));
        if (batch.length > 0) await succeed(hands.session, hands.queueId, worker, batch);
      }
    })();
    try {
      for (let round = 0; round < 40; round++) {
        const calls = Array.from({ length: 10 }, async (_, n) =>
          (n % 2 ? jobs : other).enqueue("work", {}, { key: `r${round}`, window: "1h" }),
        );
        expect(new Set((await Promise.all(calls)).map(({ id }) => id)).size).toBe(1);
      }
      await until(async () => (await bench.states()).queued === undefined, {
        what: "all have run",
      });
    } finally {
      going = false;
      await working;
    }
    // Of those that came at once the later ones have not taken the first one's window with them.
    const keys = Array.from({ length: 40 }, (_, n) => ({ payload: {}, key: `r${n}` }));
    const again = await jobs.enqueueMany("work", keys, { window: "1h" });
    expect(again.filter(({ deduplicated }) => !deduplicated)).toEqual([]);
    expect(await rows()).toHaveLength(40);
  });
});

describe("a replacement", () => {
  it("of many callers at once: the job has the payload of one of them, and no other is made", async () => {
    const other = await bench.producer();
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, n) =>
        (n % 2 ? jobs : other).enqueue("work", { n }, { key: "k", onConflict: "replace" }),
      ),
    );
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect(answers.filter(({ replaced }) => replaced)).toHaveLength(99);
    expect(await rows()).toHaveLength(1);
  });

  it("never changes a job that is being claimed meanwhile", async () => {
    for (let round = 0; round < 100; round++) {
      const job = await jobs.enqueue("work", { n: "old" }, { key: `${round}` });
      const [answer, claims] = await Promise.all([
        jobs.enqueue("work", { n: "new" }, { key: `${round}`, onConflict: "replace-payload" }),
        hands.claim(worker),
      ]);
      expect(answer).toEqual({ id: job.id, deduplicated: true, replaced: answer.replaced });
      // Nobody's handler may see less than the caller was told.
      const seen = claims[0] ?? (await hands.claim(worker))[0];
      expect(JSON.parse(seen!.payload)).toEqual({ n: answer.replaced ? "new" : "old" });
    }
  });

  it("keeps the counters true", async () => {
    await bench.sql("truncate jobs.stat, jobs.stat_delta");
    await jobs.enqueue("work", {}, { key: "k" });
    await jobs.enqueue("work", {}, { key: "k", onConflict: "replace", priority: 7 });
    const [sum] = await bench.sql(
      "select sum(n)::int as n, count(distinct lane)::int as lanes from jobs.stat_delta",
    );
    expect(sum).toEqual({ n: 1, lanes: 1 });
  });
});

describe("a call that waits for a stranger's transaction, or is poisoned", () => {
  it("costs those that were sent with it nothing", async () => {
    const client = await bench.client();
    await client.query("begin");
    await jobs.in(client).enqueue("work", {}, { key: "held", window: "1h" });
    const calls = ["held", "free-1", "free-2"].map(async (key) =>
      jobs.enqueue("work", {}, { key, window: "1h" }),
    );
    await expect(calls[0]).rejects.toMatchObject({ code: "KEY_LOCKED" });
    await expect(Promise.all(calls.slice(1))).resolves.toHaveLength(2);
    await client.query("rollback");
    client.release();
    await expect(jobs.enqueue("work", {}, { key: "held", window: "1h" })).resolves.toMatchObject({
      deduplicated: false,
    });
  });

  it("is refused, not tried for ever, when the id of its job is taken", async () => {
    const { id } = await jobs.enqueue("work", {}, { key: "one", window: "1h" });
    const [sequence] = await bench.sql<{ last: string }>(
      "select last_value::text as last from jobs.job_id",
    );
    await bench.sql("select setval('jobs.job_id', $1, false)", [id.split("-")[1]]);
    const restored = await bench.producer({ notify: false });
    const refused = restored.enqueue("work", {}, { key: "two", window: "1h" });
    const answer = await refused.catch((error: unknown) => error);
    await bench.sql("select setval('jobs.job_id', $1)", [sequence!.last]);
    expect(String(answer)).toContain("has gone back");
    expect(await bench.sql("select key from jobs.dedup where key = 'two'")).toEqual([]);
  });
});

describe("equal keys in one call", () => {
  it.each([
    ["of one queue", {}],
    ["of two queues", { payload: { aside: true }, queue: "aside" }],
  ])("%s: the first wins, whatever the others ask for", async (_, extra) => {
    const held = await jobs.enqueue("work", { n: "held" }, { key: "held" });
    const items = [
      { payload: { n: 1 }, key: "new", window: "1h" },
      { payload: { n: 2 }, key: "new", onConflict: "replace" },
      { payload: { n: 3 }, key: "held", onConflict: "replace" },
      { payload: { n: 4 }, key: "held", onConflict: "replace" },
      { payload: { n: 5 }, key: "held" },
      { payload: { n: 6 } },
      extra,
    ];
    for (const queue of ["jobs", "in(tx)"]) {
      await bench.sql("delete from jobs.job where kind = 'work' and key is distinct from 'held'");
      await bench.sql("truncate jobs.dedup");
      const send = async (door: Pick<JobQueue, "enqueueMany">) =>
        await door.enqueueMany("work", items as { payload: unknown }[]);
      let answers: Enqueued[] = [];
      if (queue === "jobs") answers = await send(jobs);
      else await inTransaction(async (door) => (answers = await send(door)));
      const [first] = answers;
      expect(answers.slice(0, 5)).toEqual([
        { id: first!.id, deduplicated: false },
        { id: first!.id, deduplicated: true, replaced: false },
        { id: held.id, deduplicated: true, replaced: true },
        { id: held.id, deduplicated: true, replaced: false },
        { id: held.id, deduplicated: true },
      ]);
      expect(answers.slice(5).map(({ deduplicated }) => deduplicated)).toEqual([false, false]);
      expect(await row(first!)).toMatchObject({ payload: { n: 1 } });
      expect(await row(held)).toMatchObject({ payload: { n: 3 } });
    }
  });
});

describe("batches of the same keys in opposite order", () => {
  it.each<[string, EnqueueOptions, EnqueueOptions]>([
    ["with windows", { window: "1h" }, { window: "1h" }],
    ["with windows that are over", { window: 1 }, { window: 1 }],
    ["replacing", { onConflict: "replace" }, { onConflict: "replace" }],
    ["of every sort", { window: "1h", onConflict: "replace" }, {}],
  ])(
    "never wait for one another, %s",
    async (_, one, two) => {
      const other = await bench.producer({ notify: false });
      const [before] = await bench.sql<{ n: number }>(deadlocks);
      for (let round = 0; round < 200; round++) {
        const keys = Array.from({ length: 40 }, (_, n) => ({
          payload: {},
          key: `${round % 3}-${n}`,
        }));
        const [forth, back] = await Promise.all([
          jobs.enqueueMany("work", keys, one),
          other.enqueueMany("work", keys.toReversed(), two),
        ]);
        expect(back.toReversed().map(({ id }) => id)).toEqual(forth.map(({ id }) => id));
      }
      await bench.sql("select pg_stat_clear_snapshot()");
      expect(await bench.sql<{ n: number }>(deadlocks)).toEqual([before]);
    },
    60_000,
  );
  const deadlocks =
    "select deadlocks::int as n from pg_stat_database where datname = current_database()";

  it("nor do long ones, over several statements and queues", async () => {
    const other = await bench.producer({ notify: false });
    for (let round = 0; round < 2; round++) {
      const keys = Array.from({ length: 3_000 }, (_, n) => ({
        payload: {},
        key: `${round}-${n}`,
        queue: n % 2 ? "one" : "two",
        ...(n % 3 ? { window: "1h" } : {}),
      }));
      const [forth, back] = await Promise.all([
        jobs.enqueueMany("work", keys),
        other.enqueueMany("work", keys.toReversed()),
      ]);
      expect(back.toReversed().map(({ id }) => id)).toEqual(forth.map(({ id }) => id));
    }
  }, 60_000);
});

describe.each(["repeatable read", "serializable"])("in a transaction that is %s", (level) => {
  type Door = (client: pg.ClientBase, key: string) => Promise<Enqueued>;
  const bySql =
    (more: string): Door =>
    async (client, key) => {
      const text = `select * from ${bench.schema}.enqueue('work', '{"by": "sql"}', key => $1${more})`;
      return (await client.query<Enqueued>(text, [key])).rows[0]!;
    };
  const doors: [string, Door][] = [
    ["the library", (client, key) => jobs.in(client).enqueue("work", {}, { key })],
    [
      "the library, with a window",
      (client, key) => jobs.in(client).enqueue("work", {}, { key, window: "1h" }),
    ],
    [
      "the library, to replace",
      (client, key) => jobs.in(client).enqueue("work", {}, { key, onConflict: "replace" }),
    ],
    ["SQL", bySql("")],
    ["SQL, with a window", bySql(", key_window => '1 hour'")],
    ["SQL, to replace", bySql(", on_conflict => 'replace-payload'")],
  ];

  /** What a call answers in a transaction whose snapshot is older than `meanwhile`. */
  async function later(
    call: (client: pg.ClientBase) => Promise<Enqueued>,
    meanwhile: () => Promise<unknown>,
  ): Promise<Enqueued | string> {
    const client = await bench.client();
    try {
      await client.query(`begin isolation level ${level}`);
      await client.query("select 1 from pg_class limit 1");
      await meanwhile();
      const answer = await call(client);
      await client.query("commit");
      return answer;
    } catch (error) {
      await client.query("rollback");
      return String((error as { code?: unknown }).code);
    } finally {
      client.release();
    }
  }

  describe.each(doors)("by %s", (_, call) => {
    it.each<[string, (holder: Enqueued) => Promise<unknown>]>([
      ["cancelled", (holder) => jobs.cancel(holder.id)],
      ["run", (holder) => settle(holder, "succeed")],
    ])("a key is free whose job was %s meanwhile", async (_end, end) => {
      const holder = await jobs.enqueue("work", {}, { key: "k" });
      const answer = await later(
        (client) => call(client, "k"),
        () => end(holder),
      );
      if (answer === "40001")
        return expect(await row(holder)).not.toMatchObject({ state: "queued" });
      expect(answer).toEqual({ id: expect.any(String), deduplicated: false });
      expect(await row(answer as Enqueued)).toMatchObject({ state: "queued", key: "k" });
    });

    it("a key that is held is held", async () => {
      const holder = await jobs.enqueue("work", {}, { key: "k" });
      const nothing = async () => undefined;
      expect(await later((client) => call(client, "k"), nothing)).toMatchObject({
        id: holder.id,
        deduplicated: true,
      });
      expect(await rows()).toHaveLength(1);
    });

    it("a key that was taken meanwhile cannot be told of", async () => {
      const taken = async () => await jobs.enqueue("work", {}, { key: "k" });
      expect(await later((client) => call(client, "k"), taken)).toBe("40001");
      expect(await rows()).toHaveLength(1);
    });

    it("a window holds, whatever became of its job", async () => {
      const holder = await jobs.enqueue("work", {}, { key: "k", window: "1h" });
      const answer = await later(
        (client) => call(client, "k"),
        () => jobs.cancel(holder.id),
      );
      if (_.endsWith("window")) expect(answer).toEqual({ id: holder.id, deduplicated: true });
      else
        expect(["40001", { id: expect.any(String), deduplicated: false }]).toContainEqual(answer);
    });
  });
});

describe("on the schema of the release before", () => {
  it("says what is missing, and plain keys go on working", async () => {
    const old = await Bench.open({ migrated: false });
    try {
      const { spine } = await import("../../libs/jobs/src/store/migrations/0001-spine.js");
      await old.sql(`create schema ${old.schema}`);
      await old.sql(spine.sql(`"${old.schema}"`));
      await old.sql(
        `create table jobs.migration (version integer primary key, name text, checksum text, applied_at timestamptz default now())`,
      );
      const { checksum } = await import("../../libs/jobs/src/store/migrations/migration.js");
      await old.sql("insert into jobs.migration values (1, 'spine', $1)", [checksum(spine)]);
      const producer = await old.producer();
      const { id } = await producer.enqueue("work", {}, { key: "k", onConflict: "keep" });
      for (const [options, feature] of [
        [{ window: "1h" }, "windows of keys"],
        [{ onConflict: "replace" }, "onConflict"],
      ] as const) {
        const refused = producer.enqueue("work", {}, { key: "k", ...options });
        await expect(refused).rejects.toThrow(SchemaNotReadyError);
        await expect(refused).rejects.toMatchObject({ found: 1, needed: 2, feature });
      }
      expect(await producer.enqueue("work", {}, { key: "k" })).toEqual({ id, deduplicated: true });
      await old.migrate();
      await expect(producer.enqueue("work", {}, { key: "k", window: "1h" })).resolves.toEqual({
        id,
        deduplicated: true,
      });
    } finally {
      await old.close();
    }
  });
});
