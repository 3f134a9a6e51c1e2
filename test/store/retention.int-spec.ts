import { JobInspector, type JobQueue } from "nestjs-pg-jobs";
import { Database } from "../../libs/jobs/src/pg/database.js";
import { Store } from "../../libs/jobs/src/store/store.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { skip } from "../../libs/jobs/src/store/transitions/skip.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { archiveDead, pruneDeadLetters } from "../../libs/jobs/src/store/upkeep/dead-letters.js";
import { applyQueueSettings } from "../../libs/jobs/src/store/queues/settings.js";
import { takeTurn } from "../../libs/jobs/src/store/upkeep/chores.js";
import { rollUp } from "../../libs/jobs/src/store/upkeep/deltas.js";
import {
  dropDay,
  ensurePartitions,
  pastDays,
} from "../../libs/jobs/src/store/upkeep/partitions.js";
import { register } from "../../libs/jobs/src/store/workers/workers.js";
import { runChore } from "../../libs/jobs/src/upkeep/upkeep.js";
import { Bench } from "../support/harness.js";
import { handler } from "../support/handlers.js";
import { Hands } from "../support/hands.js";
import { violations } from "../support/invariants.js";
import { until } from "../support/until.js";

// What is finished goes, and everything else goes on meanwhile. Rows and partitions are moved, never the clock.

const DAY_MS = 86_400_000;
const WEEK = { keepFinishedMs: 7 * DAY_MS };
const PARENTS = ["attempt_error", "done", "event"];

let bench: Bench;
let jobs: JobQueue;
let inspector: JobInspector;
let hands: Hands;
let worker: number;
let database: Database;
let store: Store;
let warnings: [string, object][];
beforeEach(async () => {
  bench = await Bench.open();
  const app = await bench.app([bench.root()]);
  inspector = app.get(JobInspector);
  jobs = await bench.producer();
  hands = await Hands.open(bench);
  worker = await hands.worker();
  database = new Database({ connectionString: bench.url }, bench.schema, 1);
  store = new Store(database);
  warnings = [];
});
afterEach(async () => {
  await database.close();
  await bench.close();
});

const day = (ahead: number) =>
  new Date(Date.now() + ahead * DAY_MS).toISOString().slice(0, 10).replaceAll("-", "");

/** The partition of a past day, as if it had been made then. */
async function pastPartition(parent: string, ago: number): Promise<string> {
  const name = `${parent}_${day(-ago)}`;
  const bound = (n: number) => new Date(Date.now() - n * DAY_MS).toISOString().slice(0, 10);
  await bench.sql(
    `create table if not exists jobs.${name} partition of jobs.${parent}
     for values from ('${bound(ago)} 00:00Z') to ('${bound(ago - 1)} 00:00Z')`,
  );
  return name;
}

/** So many jobs that finished some days ago, with an error and an event each, and their counters. */
async function finishedAgo(ago: number, count: number, state = 1): Promise<void> {
  for (const parent of PARENTS) await pastPartition(parent, ago);
  await bench.sql(
    `insert into jobs.done (id, finished_at, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, state)
     select -(row_number() over () + $2 * 100000), now() - $2 * interval '1 day', now() - $2 * interval '1 day',
       now() - $2 * interval '1 day', 1, $3, 0, $4, 1, 'work', $5 from generate_series(1, $1)`,
    [count, ago, hands.queueId, hands.lane, state],
  );
  await bench.sql(
    `insert into jobs.attempt_error (job_id, failed_at, attempt, queue_id, generation, error)
     select -n, now() - $2 * interval '1 day', 1, $3, 1, '{}' from generate_series(1, $1) n`,
    [count, ago, hands.queueId],
  );
  await bench.sql(
    `insert into jobs.event (job_id, at, attempt, queue_id, generation, event)
     select -n, now() - $2 * interval '1 day', 1, $3, 1, 'snoozed' from generate_series(1, $1) n`,
    [count, ago, hands.queueId],
  );
}

async function letters(count: number, ago: number): Promise<string[]> {
  const ids = await hands.addMany(count);
  await hands.claim(worker);
  const error = '{"name":"Error","message":"boom"}';
  await bury(
    hands.session,
    hands.queueId,
    worker,
    ids.map((id) => ({ id, attempt: 1, error, reason: "exhausted", failed: true })),
    { history: true },
  );
  for (const id of ids) await bench.age(hands.named(id), `${ago} days`);
  return ids.map((id) => hands.named(id));
}

const partitions = async () =>
  (
    await bench.sql<{ name: string }>(
      `select relname as name from pg_class
       where relnamespace = '${bench.schema}'::regnamespace and relkind = 'r' and relname ~ '_[0-9]{8}$' order by 1`,
    )
  ).map(({ name }) => name);

const due = async () => await bench.sql("update jobs.chore set due_at = now()");

const retain = async (settings = WEEK, by = store) => {
  await due();
  await runChore(by, "retention", {
    ...settings,
    released: () => {},
    changed: () => {},
    warn: (message, params) => void warnings.push([message, params]),
  });
};

const settings = (archiveDeadMs: number | null, pruneDeadMs: number | null) => ({
  history: "full" as const,
  archiveDeadMs,
  pruneDeadMs,
});

describe("finished jobs", () => {
  it("go with their errors and events when their day is over for as long as said", async () => {
    for (const ago of [30, 9, 8, 7, 2]) await finishedAgo(ago, 10);
    await retain();
    const left = (await partitions()).filter((name) => name < `${name.slice(0, -8)}${day(0)}`);
    expect(left).toEqual(
      PARENTS.flatMap((parent) => [`${parent}_${day(-7)}`, `${parent}_${day(-2)}`]),
    );
    expect(await bench.states()).toEqual({ succeeded: 20 });
    expect(await violations(bench, {})).toEqual([]);
  });

  it("stay in the counters as pruned, and the counters stay few", async () => {
    await finishedAgo(12, 5);
    await finishedAgo(10, 7, 2);
    await finishedAgo(3, 2, 3);
    await rollUp(store);
    await retain();
    const one = { succeeded: 0, skipped: 0, cancelled: 2, pruned: 12, unfinished: 0, dead: 0 };
    expect(await inspector.counts()).toMatchObject([one]);
    await rollUp(store);
    expect(await inspector.counts()).toMatchObject([one]);
    expect(
      await bench.sql(
        "select from jobs.stat where day < now() - interval '9 days' and day <> 'epoch'",
      ),
    ).toEqual([]);
    expect(await bench.sql("select from jobs.stat_delta")).toEqual([]);
  });

  it("are dropped under traffic, which neither fails nor waits", async () => {
    for (let ago = 8; ago < 20; ago++) await finishedAgo(ago, 200);
    let busy = true;
    const waits: number[] = [];
    const traffic = async () => {
      const mine = await Hands.open(bench);
      for (let round = 0; busy; round++) {
        const from = performance.now();
        const ids = await mine.addMany(5);
        const claims = await mine.claim(worker);
        if (claims.length === 0) continue;
        const fences = claims.map(({ id, attempt }) => ({ id, attempt }));
        if (round % 2 === 0)
          await succeed(
            mine.session,
            mine.queueId,
            worker,
            fences.map((one) => ({ ...one, result: null })),
          );
        else
          await retry(
            mine.session,
            mine.queueId,
            worker,
            fences.map((one) => ({ ...one, delayMs: 0, error: "{}" })),
          );
        expect(ids).toHaveLength(5);
        waits.push(performance.now() - from);
      }
    };
    const all = [traffic(), traffic()];
    await until(() => waits.length > 20, { what: "the traffic flows" });
    await retain().finally(() => (busy = false));
    await Promise.all(all);
    expect(
      (await partitions()).filter((name) => name < `done_${day(-7)}` && name > "done_"),
    ).toEqual([]);
    // As long as a stalled machine takes; nobody waits for a lock that is not given.
    expect(Math.max(...waits)).toBeLessThan(10_000);
    await bench.sql("update jobs.job set lease_until = null, worker = null");
    expect(await violations(bench, {})).toEqual([]);
  });

  it("that somebody reads stay until he has done; settling goes on, and the chore says so and is due again", async () => {
    await finishedAgo(9, 3);
    const reader = await bench.client();
    await reader.query("begin isolation level repeatable read");
    await reader.query(`select count(*) from ${bench.schema}.done`);
    const id = await hands.add();
    await hands.claim(worker);
    let failed: Error | undefined;
    const trying = retain().catch((error: Error) => void (failed = error));
    await succeed(hands.session, hands.queueId, worker, [{ id, attempt: 1, result: null }]);
    // The chore still tries.
    expect(failed).toBeUndefined();
    await trying;
    expect(failed?.message).toMatch(/done_\d{8} cannot be dropped: a transaction/);
    const [chore] = await bench.sql<{ soon: boolean }>(
      "select due_at <= now() + interval '1 minute' as soon from jobs.chore where name = 'retention'",
    );
    expect(chore!.soon).toBe(true);
    await reader.query("commit");
    reader.release();
    // What the first run has left half-detached is finished by the next one.
    await retain();
    expect((await partitions()).filter((name) => name.endsWith(day(-9)))).toEqual([]);
    expect(await violations(bench, {})).toEqual([]);
  });

  it("are dropped by a role without any rights on the tables' definitions", async () => {
    await finishedAgo(9, 3);
    const role = `w_${bench.schema}`;
    await bench.sql(`create role ${role} login password 'w'`);
    try {
      await bench.sql(`grant usage on schema ${bench.schema} to ${role}`);
      await bench.sql(
        `grant select, insert, update, delete on all tables in schema ${bench.schema} to ${role}`,
      );
      await bench.sql(`grant execute on all functions in schema ${bench.schema} to ${role}`);
      const url = new URL(bench.direct); // a pooler knows no role of ours
      url.username = role;
      url.password = "w";
      const theirs = new Database({ connectionString: url.href }, bench.schema, 1);
      const [past] = await pastDays(theirs.open("front"), 8 * DAY_MS - DAY_MS);
      expect(past).toMatchObject({ owned: false, attached: true });
      await theirs.close();
      const again = new Database({ connectionString: url.href }, bench.schema, 1);
      await retain(WEEK, new Store(again));
      await again.close();
      expect((await partitions()).filter((name) => name.endsWith(day(-9)))).toEqual([]);
      await expect(bench.sql(`select jobs.drop_partition('done_${day(0)}')`)).rejects.toThrow(
        /a day that is over/,
      );
      await expect(bench.sql(`select jobs.drop_partition('job')`)).rejects.toThrow(/of a day/);
    } finally {
      await bench.sql(`drop owned by ${role}; drop role ${role}`);
    }
  });

  it("are dropped once by twenty replicas, whatever each of them sees", async () => {
    for (const ago of [8, 9, 10]) await finishedAgo(ago, 4);
    const days = await pastDays(store, 7 * DAY_MS);
    expect(days).toHaveLength(9);
    const sessions = Array.from({ length: 20 }, () => bench.session());
    await due();
    let ran = 0;
    await Promise.all(
      sessions.map(async (session) => {
        if (await takeTurn(session, "retention")) ran++;
      }),
    );
    expect(ran).toBe(1);
    await retain();
    await rollUp(store);
    expect(await inspector.counts()).toMatchObject([{ pruned: 12, succeeded: 0 }]);
    // And two that got so far as to drop the same day.
    const name = await pastPartition("done", 11);
    const day11 = { parent: "done", name, attached: true, pending: false, owned: false };
    await Promise.all([dropDay(sessions[0]!, day11), dropDay(sessions[1]!, day11)]);
  });

  it("are kept for the longest time that a worker of the last day was told", async () => {
    await finishedAgo(9, 3);
    const card = { host: "other", pid: 1, kinds: {}, slots: 1 };
    const other = await register(hands.session, { ...card, keepFinishedMs: 20 * DAY_MS });
    await retain();
    expect(await bench.states()).toEqual({ succeeded: 3 });
    expect(warnings).toEqual([
      [
        expect.stringContaining("different times"),
        { keepFinishedMs: [7 * DAY_MS, 20 * DAY_MS], holds: 20 * DAY_MS },
      ],
    ]);
    await bench.sql(
      "update jobs.worker set stopped_at = now(), beat_at = now() - interval '20 hours' where id = $1",
      [other],
    );
    await retain();
    expect(await bench.states()).toEqual({ succeeded: 3 });
    expect(warnings).toHaveLength(1);
    await bench.sql("update jobs.worker set beat_at = now() - interval '25 hours' where id = $1", [
      other,
    ]);
    await retain();
    expect(await bench.states()).toEqual({});
  });
});

describe("a queue that keeps nothing", () => {
  it("counts what it forgets, and tells it where the history is full", async () => {
    await applyQueueSettings(hands.session, hands.queueId, settings(null, null));
    const ids = await hands.addMany(3);
    await hands.claim(worker);
    const writes = { history: true, full: true, keep: false };
    const fences = ids.map((id) => ({ id, attempt: 1, result: '{"reason":"none"}' }));
    const done = await succeed(hands.session, hands.queueId, worker, fences.slice(0, 2), writes);
    expect([...done].sort()).toEqual(ids.slice(0, 2).sort());
    expect([...(await skip(hands.session, hands.queueId, worker, fences, writes))]).toEqual([
      ids[2],
    ]);
    expect(await bench.states()).toEqual({});
    expect(await inspector.counts()).toMatchObject([{ unfinished: 0, succeeded: 0, pruned: 3 }]);
    const events = async (id: string) =>
      (await inspector.history(hands.named(id))).map(({ event }) => event);
    expect(await events(ids[0]!)).toEqual(["enqueued", "started", "succeeded"]);
    expect(await events(ids[2]!)).toEqual(["enqueued", "started", "skipped"]);
  });
});

describe("dead letters", () => {
  it("are archived and pruned by their age, in batches, and no others", async () => {
    await applyQueueSettings(hands.session, hands.queueId, settings(30 * DAY_MS, 90 * DAY_MS));
    const [fresh] = await letters(1, 29);
    const [old] = await letters(1, 31);
    const [gone] = await letters(1, 91);
    await bench.sql(
      `insert into jobs.dead (id, finished_at, created_at, run_at, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
       select -n, now() - interval '40 days', now(), now(), 1, $1, 1, 0, $2, 1, 'work', '{}', 'exhausted' from generate_series(1, 2500) n`,
      [hands.queueId, hands.lane],
    );
    await retain();
    expect(await bench.sql("select count(*)::int as n from jobs.dead_archive")).toEqual([
      { n: 2501 },
    ]);
    expect(await bench.sql("select count(*)::int as n from jobs.dead")).toEqual([{ n: 1 }]);
    expect(await inspector.counts()).toMatchObject([{ dead: 1, archived: 2501, pruned: 1 }]);
    expect(await inspector.get(old!)).toMatchObject({ id: old, state: "dead", lastError: "boom" });
    expect(await inspector.attempts(old!)).toMatchObject([
      { attempt: 1, error: { message: "boom" } },
    ]);
    expect((await inspector.history(old!)).map(({ event }) => event)).toEqual([
      "enqueued",
      "started",
      "died",
    ]);
    expect(await inspector.get(fresh!)).toMatchObject({ state: "dead" });
    expect(await inspector.get(gone!)).toBeNull();
    expect((await inspector.history(gone!)).at(-1)).toMatchObject({ event: "pruned" });
    // An archived one is requeued like any other, or pruned when its time has come.
    expect(await jobs.requeue(old!)).toBe("queued");
    expect(await bench.state(old!)).toBe("queued");
    await bench.sql("update jobs.dead_archive set finished_at = now() - interval '91 days'");
    await retain();
    expect(await inspector.counts()).toMatchObject([
      { unfinished: 1, dead: 1, archived: 0, pruned: 2501 },
    ]);
  });

  it("that are long go a few at a time, so that nobody waits for gigabytes", async () => {
    await bench.sql(
      `insert into jobs.dead (id, finished_at, created_at, run_at, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
       select -n, now() - interval '40 days', now(), now(), 1, $1, 1, 0, $2, 1, 'work', to_jsonb(long.text), 'exhausted'
       from generate_series(1, 40) n
       cross join (select string_agg(md5(i::text), '') as text from generate_series(1, 32768) i) long`,
      [hands.queueId, hands.lane],
    );
    const count = async (table: string) =>
      (await bench.sql<{ n: number }>(`select count(*)::int as n from jobs.${table}`))[0]!.n;
    const ways = [
      ["dead", archiveDead, settings(30 * DAY_MS, null)],
      ["dead_archive", pruneDeadLetters, settings(null, 30 * DAY_MS)],
    ] as const;
    for (const [table, step, ages] of ways) {
      await applyQueueSettings(hands.session, hands.queueId, ages);
      const left: number[] = [];
      let more = true;
      while (more) {
        more = await step(hands.session, hands.queueId);
        left.push(await count(table));
      }
      expect(left).toEqual([32, 24, 16, 8, 0]);
    }
    expect(await count("dead_archive")).toBe(0);
    expect(await inspector.counts()).toMatchObject([{ dead: 0, archived: 0, pruned: 40 }]);
  });

  it("stay for ever where nobody says otherwise", async () => {
    const [id] = await letters(1, 3_000);
    await retain();
    expect(await bench.state(id!)).toBe("dead");
    expect(await bench.sql("select from jobs.dead_archive")).toEqual([]);
  });
});

describe("a chore that fails", () => {
  it("does what else it can, says so, and is due again in a minute", async () => {
    await applyQueueSettings(hands.session, hands.queueId, settings(null, DAY_MS));
    const [id] = await letters(1, 2);
    await finishedAgo(9, 1);
    await finishedAgo(8, 1);
    await bench.sql("create view jobs.in_the_way as select id from jobs.done_" + day(-9));
    await expect(retain()).rejects.toThrow(/done_\d{8}/);
    expect(await bench.state(id!)).toBeUndefined();
    // One day that cannot go keeps no other.
    expect((await partitions()).filter((name) => name.slice(-8) < day(0))).toEqual([
      `done_${day(-9)}`,
    ]);
    await bench.sql("drop view jobs.in_the_way");
    const [chore] = await bench.sql<{ soon: boolean }>(
      "select due_at between now() and now() + interval '1 minute' as soon from jobs.chore where name = 'retention'",
    );
    expect(chore!.soon).toBe(true);
    await retain();
    expect(await bench.states()).toEqual({});
  });
});

describe("a database left alone for a month", () => {
  it("goes on when a worker comes back, and has not grown", async () => {
    const [letter] = await letters(1, 25);
    // All that a month ago had made ahead has passed: nothing for today, and every table full of old days.
    for (const name of await partitions()) await bench.sql(`drop table jobs.${name}`);
    for (let ago = 30; ago >= 23; ago--) await finishedAgo(ago, 5);
    await bench.sql("update jobs.worker set beat_at = now() - interval '30 days'");
    await bench.sql("update jobs.chore set due_at = now() - interval '30 days'");
    const Worked = handler("worked", () => undefined);
    const app = await bench.worker([Worked], { queues: { default: { pruneDead: "20d" } } });
    const { id } = await jobs.enqueue("worked", {});
    await until(async () => (await bench.state(id)) === "succeeded", { what: "it works" });
    await until(async () => (await partitions()).every((name) => name.slice(-8) >= day(0)), {
      what: "old days are gone",
      timeout: 40_000,
    });
    const [daily] = await bench.sql<{ n: number }>("select count(*)::int as n from jobs.daily");
    expect(await partitions()).toHaveLength(8 * daily!.n);
    await until(async () => (await bench.state(letter!)) === undefined, {
      what: "the dead letter is pruned",
    });
    await until(async () => (await bench.sql("select from jobs.stat_delta")).length === 0, {
      what: "counters are rolled up",
    });
    expect(
      await bench.sql(
        "select from jobs.stat where day < now() - interval '7 days' and day <> 'epoch'",
      ),
    ).toEqual([]);
    expect(
      await bench.sql("select from jobs.worker where beat_at < now() - interval '9 days'"),
    ).toEqual([]);
    expect((await inspector.counts()).find(({ kind }) => kind === "work")).toMatchObject({
      pruned: 41,
      dead: 0,
    });
    await app.close();
    expect(await violations(bench, {})).toEqual([]);
    expect(await ensurePartitions(hands.session)).toBe(0);
  });
});
