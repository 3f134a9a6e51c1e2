import { JobInspector, JobQueue } from "nestjs-pg-jobs";
import type { PoolClient } from "pg";
import { onTransaction } from "../../libs/jobs/src/queue/transaction.js";
import { type Runner, Statement } from "../../libs/jobs/src/pg/statement.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { cancel } from "../../libs/jobs/src/store/transitions/cancel.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import { report } from "../../libs/jobs/src/store/transitions/report.js";
import { requeue } from "../../libs/jobs/src/store/transitions/requeue.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { archiveDead } from "../../libs/jobs/src/store/upkeep/dead-letters.js";
import { prune } from "../../libs/jobs/src/store/upkeep/progress.js";
import { firstRelease } from "../support/first-release.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// Progress and log lines are written by the current attempt only, and kept as long as the job.

let bench: Bench;
let hands: Hands;
let inspector: JobInspector;
let jobs: JobQueue;
let mine: number;
let theirs: number;
let client: PoolClient;
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  const app = await bench.app([bench.root()]);
  [inspector, jobs] = [app.get(JobInspector), app.get(JobQueue)];
  [mine, theirs] = [await hands.worker(1), await hands.worker(2)];
  client = await bench.client();
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  // One that a failed test left open would hold the truncate for ever.
  await client.query("rollback");
  await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.progress, jobs.job_log");
});

const say = async (
  id: string,
  attempt: number,
  worker: number,
  text: string,
  { last = false, again = false, line = 1, runner = hands.session as Runner } = {},
) => [
  ...(await report(
    runner,
    hands.queueId,
    worker,
    [
      {
        id,
        attempt,
        progress: { percent: line, note: text },
        lines: [{ line, ageMs: 1_500, text }],
      },
    ],
    { last, again },
  )),
];
const said = async (id: string) => ({
  note: (await inspector.progress(hands.named(id)))?.note ?? null,
  lines: (await inspector.logs(hands.named(id))).items.map(({ text }) => text),
});

describe("what an attempt says", () => {
  it("is kept, with its time by the database's clock", async () => {
    const id = await hands.add();
    await hands.claim(mine);
    const now = async () => (await bench.sql<{ now: Date }>("select now()"))[0]!.now.getTime();
    const before = await now();
    expect(await say(id, 1, mine, "first")).toEqual([id]);
    const after = await now();
    const progress = await inspector.progress(hands.named(id));
    expect(progress).toEqual({ percent: 1, note: "first", attempt: 1, at: expect.any(String) });
    const { items, next } = await inspector.logs(hands.named(id));
    expect(next).toBeNull();
    expect(items).toEqual([{ attempt: 1, line: 1, text: "first", at: expect.any(String) }]);
    for (const [at, ageMs] of [
      [progress!.at, 0],
      [items[0]!.at, 1_500],
    ] as const) {
      expect(Date.parse(at)).toBeGreaterThanOrEqual(before - ageMs - 1);
      expect(Date.parse(at)).toBeLessThanOrEqual(after - ageMs + 1);
    }
    expect((await jobs.get(hands.named(id)))!.progress).toEqual(progress);
    expect((await inspector.get(hands.named(id)))!.progress).toEqual(progress);
  });

  it("may be only progress, or only lines; both of many jobs in one statement", async () => {
    const [a, b] = (await hands.addMany(2)) as [string, string];
    await hands.claim(mine);
    const batch = [
      { id: a, attempt: 1, progress: { percent: 12.5, note: null }, lines: [] },
      {
        id: b,
        attempt: 1,
        progress: null,
        lines: [
          { line: 1, ageMs: 0, text: '"quoted" \\ 😀\n' },
          { line: 2, ageMs: 0, text: "" },
        ],
      },
    ];
    const done = await report(hands.session, hands.queueId, mine, batch, {
      last: false,
      again: false,
    });
    expect([...done].sort()).toEqual([a, b].sort());
    expect(await inspector.progress(hands.named(a))).toMatchObject({ percent: 12.5, note: null });
    expect(await inspector.progress(hands.named(b))).toBeNull();
    expect(await said(a)).toEqual({ note: null, lines: [] });
    expect(await said(b)).toEqual({ note: null, lines: ['"quoted" \\ 😀\n', ""] });
  });

  it("is one row of progress a job, changed without a new index entry", async () => {
    const id = await hands.add();
    await hands.claim(mine);
    for (let line = 1; line <= 20; line++) await say(id, 1, mine, `n ${line}`, { line });
    expect(await bench.sql("select percent from jobs.progress")).toEqual([{ percent: 20 }]);
    const counts = async () =>
      (
        await bench.sql<{ all: number; hot: number }>(
          `select n_tup_upd::int as all, n_tup_hot_upd::int as hot from pg_stat_user_tables
           where schemaname = '${bench.schema}' and relname = 'progress'`,
        )
      )[0]!;
    // Before PostgreSQL 15 a process sends its statistics when it has done something else, half a second later.
    const counted = async () => {
      await hands.session.run(new Statement(null, () => "select 1"));
      return (await counts()).all >= 19;
    };
    await until(counted, { every: 300, what: "statistics" });
    expect((await counts()).hot).toBe((await counts()).all);
  });

  it("is not written twice when the answer of the first time was lost", async () => {
    const id = await hands.add();
    await hands.claim(mine);
    await say(id, 1, mine, "once");
    expect(await say(id, 1, mine, "once", { again: true })).toEqual([id]);
    expect(await say(id, 1, mine, "more", { again: true, line: 2 })).toEqual([id]);
    expect((await said(id)).lines).toEqual(["once", "more"]);
  });
});

describe("a superseded attempt", () => {
  const states: Record<string, (id: string) => Promise<unknown>> = {
    "claimed by another worker": async () => undefined,
    "put back": async (id) =>
      await handBack(hands.session, hands.queueId, theirs, [
        { id, attempt: 2, started: true, quarantine: false },
      ]),
    finished: async (id) =>
      await succeed(hands.session, hands.queueId, theirs, [{ id, attempt: 2, result: null }]),
    cancelled: async (id) => {
      await hands.expire(id);
      await jobs.cancel(hands.named(id));
    },
    gone: async () => await bench.sql("delete from jobs.job"),
  };
  it.each(Object.keys(states))("says nothing of a job that is %s", async (state) => {
    const id = await hands.add();
    await hands.claim(mine);
    await hands.expire(id);
    await hands.claim(theirs, { takeOver: true });
    await say(id, 2, theirs, "the newer one");
    await states[state]!(id);
    for (const [attempt, worker] of [
      [1, mine],
      [2, mine],
      [1, theirs],
      [3, theirs],
    ] as const)
      for (const last of [false, true])
        expect(await say(id, attempt, worker, "late", { last, line: 99 })).toEqual([]);
    expect(await said(id)).toEqual({ note: "the newer one", lines: ["the newer one"] });
  });

  it("that was about to say something makes the take-over wait, or is not heard", async () => {
    const id = await hands.add();
    await hands.claim(mine);
    await hands.expire(id);
    await client.query("begin");
    const runner = onTransaction(client, bench.schema);
    expect(await say(id, 1, mine, "in time", { runner })).toEqual([id]);
    // It is not committed: whoever would take the job over passes it by.
    expect(await hands.claim(theirs, { takeOver: true })).toEqual([]);
    await client.query("commit");
    expect(await hands.claim(theirs, { takeOver: true })).toHaveLength(1);
    expect(await say(id, 1, mine, "late", { line: 2 })).toEqual([]);
    expect((await said(id)).lines).toEqual(["in time"]);
  });

  it("finds a job that is locked for the moment left for later, or waits for it", async () => {
    const id = await hands.add();
    await hands.claim(mine);
    await client.query("begin");
    await client.query(`select 1 from ${bench.schema}.job for update`);
    expect(await say(id, 1, mine, "skipped")).toEqual([]);
    const last = say(id, 1, mine, "waits", { last: true });
    const blocked = `select 1 from pg_stat_activity
      where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`;
    await until(async () => (await bench.sql(blocked)).length, { what: "it waits" });
    await client.query("commit");
    expect(await last).toEqual([id]);
    expect((await said(id)).lines).toEqual(["waits"]);
  });
});

describe("logs", () => {
  it("are read in pages, over attempts and days", async () => {
    const id = await hands.add();
    const day = new Date().toISOString().slice(0, 10);
    await bench.sql(
      `insert into jobs.job_log (job_id, queue_id, logged_at, written_at, attempt, line, text)
       select $1, $2, now(), '${day}'::timestamptz + (n % 3) * interval '1 day', 1 + n / 10, 1 + n % 10, 'line ' || n
       from generate_series(0, 29) n`,
      [id, hands.queueId],
    );
    await hands.add();
    const read: string[] = [];
    let after: string | undefined;
    do {
      const page = await inspector.logs(hands.named(id), { limit: 7, ...(after && { after }) });
      expect(page.items.length).toBeLessThanOrEqual(7);
      read.push(...page.items.map(({ text }) => text));
      after = page.next ?? undefined;
    } while (after);
    expect(read).toEqual(Array.from({ length: 30 }, (_, n) => `line ${n}`));
    const { items } = await inspector.logs(hands.named(id), { attempt: 2 });
    expect(items.map(({ line }) => line)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(await inspector.logs(`${hands.queueId}-1`)).toEqual({ items: [], next: null });
  });

  const cursor = (text: string) => Buffer.from(text).toString("base64url");
  it.each([
    [{ limit: 0 }, "OPTIONS_INVALID"],
    [{ limit: 1_001 }, "OPTIONS_INVALID"],
    [{ attempt: 0 }, "OPTIONS_INVALID"],
    [{ attempt: 2 ** 31 }, "OPTIONS_INVALID"],
    [{ lines: 1 }, "OPTIONS_INVALID"],
    [null, "OPTIONS_INVALID"],
    [{ after: "" }, "CURSOR_INVALID"],
    [{ after: 1 }, "CURSOR_INVALID"],
    [{ after: cursor("l1") }, "CURSOR_INVALID"],
    [{ after: cursor("l1.2147483648") }, "CURSOR_INVALID"],
    [{ after: cursor("l01.1") }, "CURSOR_INVALID"],
    [{ after: cursor("j1") }, "CURSOR_INVALID"],
  ])("refuse the page %j", async (page, code) => {
    await expect(inspector.logs("1-1", page as object)).rejects.toMatchObject({ code });
  });

  it("and progress refuse what is no id", async () => {
    await expect(inspector.logs("x")).rejects.toMatchObject({ code: "JOB_ID_INVALID" });
    await expect(inspector.progress("x")).rejects.toMatchObject({ code: "JOB_ID_INVALID" });
  });
});

describe("pruning", () => {
  it("forgets the progress of jobs that are gone, and of no other", async () => {
    const ids = await hands.addMany(7);
    await hands.claim(mine);
    for (const id of ids) await say(id, 1, mine, "said");
    const [finished, dead, archived, forgotten, gone] = ids as [
      string,
      string,
      string,
      string,
      string,
    ];
    const end = [hands.session, hands.queueId, mine] as const;
    await succeed(...end, [{ id: finished, attempt: 1, result: null }]);
    await succeed(...end, [{ id: forgotten, attempt: 1, result: null }], { keep: false });
    await bench.sql(
      `insert into jobs.dead (id, created_at, run_at, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
       select id, created_at, run_at, attempt, queue_id, 1, 0, lane, 1, kind, payload, 'exhausted' from jobs.job where id = $1`,
      [dead],
    );
    await bench.sql(
      `insert into jobs.dead_archive (id, finished_at, created_at, run_at, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason, errors)
       select id, now(), created_at, run_at, attempt, queue_id, 1, 0, lane, 1, kind, payload, 'exhausted', '[]' from jobs.job where id = $1`,
      [archived],
    );
    await bench.sql("delete from jobs.job where id = any($1)", [[dead, archived, gone]]);
    expect(await prune(hands.session, 1)).toBe(2);
    const left = await bench.sql<{ job_id: string }>("select job_id from jobs.progress");
    expect(left.map(({ job_id }) => job_id).sort()).toEqual(
      ids.filter((id) => ![gone, forgotten].includes(id)).sort(),
    );
    // Lines go with their day.
    expect(await said(forgotten)).toEqual({ note: null, lines: ["said"] });
  });

  it("keeps what was said of a job that is on its way from place to place", async () => {
    const id = await hands.add();
    await hands.claim(mine);
    await say(id, 1, mine, "said");
    const error = '{"name":"Error","message":"boom"}';
    await bury(hands.session, hands.queueId, mine, [
      { id, attempt: 1, error, reason: "exhausted", failed: true },
    ]);
    await bench.sql("update jobs.dead set finished_at = now() - interval '1 hour'");
    await bench.sql("update jobs.queue set archive_dead = '1 minute'");
    const moves: ((runner: Runner) => Promise<unknown>)[] = [
      async (runner) => await archiveDead(runner, hands.queueId),
      async (runner) => await requeue(runner, hands.queueId, id, null, { history: true }),
      async (runner) => await cancel(runner, hands.queueId, id),
    ];
    for (const move of moves) {
      await client.query("begin");
      await move(onTransaction(client, bench.schema));
      expect(await prune(hands.session)).toBe(0);
      await client.query("commit");
      expect(await prune(hands.session)).toBe(0);
    }
    expect(await bench.state(hands.named(id))).toBe("cancelled");
    expect(await inspector.progress(hands.named(id))).toMatchObject({ note: "said" });
  });

  it("is a chore", async () => {
    expect(await bench.sql("select name from jobs.chore where name = 'progress'")).toHaveLength(1);
  });
});

it("on a schema of the release before, looking at progress and logs says so; jobs can be seen", async () => {
  const old = await firstRelease();
  try {
    const app = await old.app([old.root()]);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    expect(await app.get(JobQueue).get(id)).toMatchObject({ state: "queued", progress: null });
    const looking = app.get(JobInspector);
    const refused = { code: "SCHEMA_NOT_READY", found: 1, needed: 2 };
    await expect(looking.progress(id)).rejects.toMatchObject(refused);
    await expect(looking.logs(id)).rejects.toMatchObject(refused);
  } finally {
    await old.close();
  }
});
