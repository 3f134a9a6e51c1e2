import { type Enqueued, JobHandler, type JobQueue, LaneLockedError } from "nestjs-pg-jobs";
import { Injectable } from "@nestjs/common";
import pg from "pg";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { openFor, until } from "../support/until.js";

// The door for every other client: it checks what the library checks and does what the library does.

let bench: Bench;
let jobs: JobQueue;
let hands: Hands;
let clients: pg.Pool;
beforeAll(async () => {
  bench = await Bench.open();
  clients = new pg.Pool({ connectionString: bench.url, max: 4 });
  jobs = await bench.producer();
  hands = await Hands.open(bench);
});
afterAll(async () => {
  await clients.end();
  await bench.close();
});
beforeEach(
  async () => void (await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.dedup")),
);

/** `jobs.enqueue(…)` as a person writes it, and as a client sends it: through the pooler, if there is one. */
const enqueue = async (call: string, values: unknown[] = []): Promise<Enqueued> =>
  (
    await clients.query<Enqueued & pg.QueryResultRow>(
      `select id, deduplicated from ${bench.schema}.enqueue(${call})`,
      values,
    )
  ).rows[0]!;
const row = async ({ id }: Enqueued) => (await jobs.get(id))!;
const names = async () => ({
  queues: await bench.sql("select id, name from jobs.queue order by id"),
  lanes: await bench.sql("select queue_id, id, kind, priority from jobs.lane order by 1, 2"),
});

describe("jobs.enqueue", () => {
  it("makes a job like the library's, with what is left out as there", async () => {
    const [mine, theirs] = [await enqueue("'work'"), await jobs.enqueue("work", {})];
    expect(mine.deduplicated).toBe(false);
    const { id, runAt, createdAt, number, ...rest } = (await row(mine)) as never as Record<
      string,
      unknown
    >;
    expect(await row(theirs)).toMatchObject(rest);
    expect(id).toBe(mine.id);
    expect(Math.abs(Date.parse(String(runAt)) - Date.parse(String(createdAt)))).toBeLessThan(100);
    expect(number).not.toBe(0);
    const at = "2030-01-02T03:04:05.678Z";
    const whole = await enqueue("'work', $1, 'default', $2, 7, $3, '1 hour', 'replace', 4", [
      JSON.stringify([1, { a: "ä" }]),
      at,
      "k",
    ]);
    expect(await row(whole)).toMatchObject({
      payload: [1, { a: "ä" }],
      runAt: at,
      priority: 7,
      key: "k",
      attempts: 4,
      state: "queued",
    });
    expect(await row(await enqueue("'work', 'null'"))).toMatchObject({ payload: null });
  });

  it("counts from the call, in a transaction that began before too", async () => {
    const client = await bench.client();
    await client.query("begin");
    await openFor(client, 300);
    const { rows: made } = await client.query<Enqueued>(
      `select id, deduplicated from ${bench.schema}.enqueue('work')`,
    );
    await client.query("commit");
    client.release();
    const { runAt, createdAt } = await row(made[0]!);
    expect(Date.parse(runAt) - Date.parse(createdAt)).toBeGreaterThan(298);
  });

  it("numbers its jobs apart from those of every library", async () => {
    const ids = new Set<string>();
    for (let n = 0; n < 10; n++) {
      ids.add((await enqueue("'work'")).id);
      ids.add((await jobs.enqueue("work", {})).id);
    }
    expect(ids.size).toBe(20);
  });

  it("shares keys, windows and replacement with the library", async () => {
    const mine = await enqueue("'work', key => 'k', key_window => '1 hour'");
    const options = { key: "k", window: "1h" };
    expect(await jobs.enqueue("work", {}, options)).toEqual({ id: mine.id, deduplicated: true });
    expect(await jobs.enqueue("work", { n: 2 }, { key: "k", onConflict: "replace" })).toEqual({
      id: mine.id,
      deduplicated: true,
      replaced: true,
    });
    expect(await row(mine)).toMatchObject({ payload: { n: 2 } });
    const worker = await hands.worker();
    const [claim] = await hands.claim(worker);
    expect(await enqueue("'work', '3', key => 'k', on_conflict => 'replace'")).toEqual({
      id: mine.id,
      deduplicated: true,
    });
    expect(await row(mine)).toMatchObject({ payload: { n: 2 }, state: "running" });
    await succeed(hands.session, hands.queueId, worker, [
      { id: claim!.id, attempt: claim!.attempt, result: null },
    ]);
    for (const again of [
      await jobs.enqueue("work", {}, options),
      await enqueue("'work', key => 'k', key_window => '1 hour'"),
    ])
      expect(again).toEqual({ id: mine.id, deduplicated: true });
    const next = await jobs.enqueue("work", {}, { key: "k" });
    expect(next.deduplicated).toBe(false);
    const later = "2031-01-01T00:00:00.000Z";
    await enqueue("'work', '4', run_at => $1, key => 'k', on_conflict => 'replace-time'", [later]);
    expect(await row(next)).toMatchObject({ payload: {}, runAt: later });
    await enqueue("'work', '5', key => 'k', on_conflict => 'replace-payload'");
    expect(await row(next)).toMatchObject({ payload: 5, runAt: later });
  });

  it("draws no id for a key that is held", async () => {
    const last = async () => await bench.sql("select last_value from jobs.job_id");
    await enqueue("'work', key => 'plain'");
    await enqueue("'work', key => 'windowed', key_window => '1 hour'");
    const before = await last();
    for (let n = 0; n < 20; n++) {
      await enqueue("'work', key => 'plain'");
      await enqueue("'work', key => 'windowed', key_window => '1 hour', on_conflict => 'replace'");
    }
    expect(await last()).toEqual(before);
  });

  it("makes many at once, from a table, in one statement", async () => {
    const rows = await bench.sql<Enqueued & pg.QueryResultRow>(
      `select made.id, made.deduplicated
       from generate_series(1, 500) n
       cross join lateral jobs.enqueue('work', jsonb_build_object('n', n), key => (n % 100)::text) made`,
    );
    expect(rows.filter(({ deduplicated }) => !deduplicated)).toHaveLength(100);
    expect(await bench.states()).toEqual({ queued: 100 });
  });

  it("of 100 sessions with one key makes one job", async () => {
    const calls = Array.from({ length: 100 }, async () => enqueue("'work', key => 'k'"));
    const answers = await Promise.all(calls);
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
  });

  it.each<[string, string, RegExp, RegExp]>([
    ["a kind without characters", "''", /^kind: expected 1\.\.64 characters/, /handler/],
    ["a kind of null", "null", /^kind: .* found null/, /handler/],
    ["a kind that is too long", "repeat('k', 65)", /^kind: .* found 65 characters/, /handler/],
    ["a kind with a line break", "E'a\\nb'", /^kind: .* found "a\\nb"/, /handler/],
    ["a kind with a C1 control", "U&'a\\0085b'", /^kind: /, /handler/],
    ["a queue without characters", "'work', queue => ''", /^queue: expected 1\.\.64/, /./],
    ["a queue of null", "'work', queue => null", /^queue: .* found null/, /./],
    ["a payload of null", "'work', null", /^payload: .* found null/, /'null'::jsonb/],
    [
      "a payload that is too large",
      "'work', to_jsonb(repeat('x', 1048576))",
      /^payload: expected at most 1048576 bytes, found 1048578/,
      /reference/,
    ],
    ["a priority out of range", "'work', priority => 101", /^priority: .* found 101/, /higher/],
    ["a priority of null", "'work', priority => null", /^priority: .* found null/, /Leave/],
    ["no attempts", "'work', attempts => 0", /^attempts: .* 1\.\.1000, found 0/, /handler/],
    ["too many attempts", "'work', attempts => 100000", /^attempts: .* found 100000/, /handler/],
    ["a time of null", "'work', run_at => null", /^run_at: .* found null/, /now/],
    ["a time before time", "'work', run_at => '1969-12-31Z'", /^run_at: .*1970\.\.9999/, /now/],
    ["a time that never comes", "'work', run_at => 'infinity'", /^run_at: .* infinity/, /now/],
    ["a key without characters", "'work', key => ''", /^key: .* found 0 characters/, /null/],
    ["a key that is too long", "'work', key => repeat('k', 513)", /^key: .* found 513/, /null/],
    ["a window without key", "'work', key_window => '1 h'", /^key_window: expected a key/, /key/],
    ["a window of nothing", "'work', key => 'k', key_window => '0'", /^key_window: .*than 0/, /./],
    [
      "a window backwards",
      "'work', key => 'k', key_window => '-1 s'",
      /^key_window: .*than 0/,
      /./,
    ],
    [
      "a window of ages",
      "'work', key => 'k', key_window => '11 y'",
      /^key_window: .*10 years/,
      /./,
    ],
    [
      "a conflict of no kind",
      "'work', key => 'k', on_conflict => 'replace-paylod'",
      /^on_conflict: .*'replace-payload'.* found "replace-paylod"/,
      /keep/,
    ],
    ["a conflict of null", "'work', key => 'k', on_conflict => null", /^on_conflict: .* null/, /./],
    [
      "a replacement without key",
      "'work', on_conflict => 'replace'",
      /^on_conflict: expected a key/,
      /key/,
    ],
  ])("refuses %s, with a hint, and leaves nothing", async (_, call, message, hint) => {
    const error = (await enqueue(call).catch((thrown: unknown) => thrown)) as pg.DatabaseError;
    expect(error).toBeInstanceOf(Error);
    expect(error.message).toMatch(message);
    expect(error).toMatchObject({ code: "22023", hint: expect.stringMatching(hint) as string });
    expect(await bench.states()).toEqual({});
    expect(await bench.sql("select job_id from jobs.dedup")).toEqual([]);
  });

  it.each([
    [
      "'nowhere-seen'",
      /^kind: expected one that is known in queue "default", found "nowhere-seen"/,
    ],
    ["'work', queue => 'nowhere'", /^queue: expected one that is known, found "nowhere"/],
  ])("refuses enqueue(%s), naming declare, and makes neither", async (call, message) => {
    const before = await names();
    const error = (await enqueue(call).catch((thrown: unknown) => thrown)) as pg.DatabaseError;
    expect(error.message).toMatch(message);
    expect(error).toMatchObject({ code: "42704" });
    expect(error.hint).toContain(`select "${bench.schema}".declare(`);
    expect(await names()).toEqual(before);
    // The hint is what helps.
    await bench.sql(/select ".*$/.exec(error.hint!)![0]);
    expect((await enqueue(call)).deduplicated).toBe(false);
  });

  it("does not heed the caller's search_path", async () => {
    const client = await bench.client();
    const evil = `${bench.schema}_evil`;
    try {
      await client.query(`create schema ${evil};
        create function ${evil}.length(text) returns integer language sql as 'select 1/0';
        create function ${evil}.clock_timestamp() returns timestamptz language sql as 'select null::timestamptz';
        create function ${evil}.nextval(text) returns bigint language sql as 'select 7::bigint';
        create function ${evil}.pg_notify(text, text) returns void language sql as 'select 1/0';
        set search_path = ${evil}, pg_catalog;
        select ${bench.schema}.declare('default', 'evil'), ${bench.schema}.wake('default')`);
      const { rows } = await client.query<{ id: string }>(
        `select id from ${bench.schema}.enqueue('evil', key => 'k', key_window => '1 hour')`,
      );
      expect(await bench.state(rows[0]!.id)).toBe("queued");
    } finally {
      await client.query(`drop schema ${evil} cascade`);
      client.release(true);
    }
  });
});

describe("jobs.declare", () => {
  it("makes a queue and a lane once, tells that there is one, and burns no id", async () => {
    const queue = "declared";
    await bench.sql("select jobs.declare($1, 'one')", [queue]);
    const version = async () =>
      (await bench.sql("select version from jobs.queue where name = $1", [queue]))[0]!.version;
    const before = await version();
    await bench.sql("select jobs.declare($1, 'one')", [queue]);
    expect(await version()).toBe(before);
    await bench.sql("select jobs.declare($1, 'two'), jobs.declare($1, 'two', 5)", [queue]);
    expect(await version()).toBe(before + 2);
    const { queues, lanes } = await names();
    const [{ id }] = queues.slice(-1) as [{ id: number }];
    expect(lanes.filter(({ queue_id }) => queue_id === id)).toEqual([
      { queue_id: id, id: 0, kind: "one", priority: 0 },
      { queue_id: id, id: 1, kind: "two", priority: 0 },
      { queue_id: id, id: 2, kind: "two", priority: 5 },
    ]);
    await bench.sql("select jobs.declare($1, 'one') from generate_series(1, 50)", [queue]);
    await bench.sql("select jobs.declare('next', 'one')");
    expect((await names()).queues.at(-1)).toEqual({ id: id + 1, name: "next" });
    expect((await jobs.enqueue("two", {}, { queue, priority: 5 })).id).toMatch(`${id}-`);
    expect(await names()).toMatchObject({ lanes: expect.arrayContaining(lanes) as unknown[] });
  });

  it.each([
    [
      "a priority",
      "select id from jobs.enqueue('held', '{}', 'holding', priority => 7)",
      "holding",
    ],
    ["a queue", "select jobs.declare('held', 'held')", "held"],
  ])(
    "of %s in an open transaction keeps others waiting, and they are told so",
    async (_, sql, queue) => {
      await bench.sql("select jobs.declare('holding', 'held')");
      const client = await bench.client();
      await client.query("begin");
      await client.query(sql.replaceAll("jobs.", `${bench.schema}.`));
      const late = jobs.enqueue("held", {}, { queue, priority: 8 });
      await expect(late).rejects.toThrow(LaneLockedError);
      await expect(late).rejects.toThrow(`kind "held" with priority 8 to queue "${queue}"`);
      await client.query("commit");
      client.release();
      await expect(jobs.enqueue("held", {}, { queue, priority: 8 })).resolves.toBeDefined();
    },
  );

  it("in the transaction that then enqueues with the library keeps it waiting too, and the error tells why", async () => {
    const client = await bench.client();
    await client.query("begin");
    await client.query(`select ${bench.schema}.declare('own', 'own')`);
    const mine = jobs.in(client).enqueue("own", {}, { queue: "own" });
    await expect(mine).rejects.toThrow(LaneLockedError);
    await expect(mine).rejects.toThrow(/the caller's own.* declare in a transaction of its own/);
    await client.query("commit");
    client.release();
    await expect(jobs.enqueue("own", {}, { queue: "own" })).resolves.toBeDefined();
  });

  it("at once by twenty sessions makes one", async () => {
    await Promise.all(
      Array.from({ length: 20 }, async () => bench.sql("select jobs.declare('crowd', 'one')")),
    );
    expect((await names()).queues.filter(({ name }) => name === "crowd")).toHaveLength(1);
  });

  it.each([
    ["'', 'kind'", /^queue: /],
    ["'queue', repeat('k', 65)", /^kind: /],
    ["'queue', null", /^kind: /],
    ["'queue', 'kind', 101", /^priority: /],
    ["'queue', 'kind', null", /^priority: /],
  ])("refuses declare(%s)", async (call, message) => {
    const refused = bench.sql(`select jobs.declare(${call})`);
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toMatchObject({ code: "22023" });
  });

  it("refuses a pair of kind and priority too many, as enqueue does, and leaves nothing", async () => {
    await bench.sql("select jobs.declare('full', 'one')");
    await bench.sql(
      `insert into jobs.lane (queue_id, id, kind, priority)
       select q.id, 9999, 'last', 0 from jobs.queue q where q.name = 'full'`,
    );
    const before = await names();
    for (const call of [
      "select jobs.declare('full', 'two')",
      "select jobs.declare('full', 'one', 1)",
      "select jobs.enqueue('one', queue => 'full', priority => 1)",
    ]) {
      const error = (await bench.sql(call).catch((thrown: unknown) => thrown)) as pg.DatabaseError;
      expect(error.message).toMatch(/^kind and priority: expected at most 10000 .* "full", found/);
      expect(error).toMatchObject({ code: "22023", hint: expect.stringMatching(/payloads/) });
    }
    expect(await names()).toEqual(before);
    expect(await bench.states()).toEqual({});
    const known = await bench.sql("select id from jobs.enqueue('one', queue => 'full')");
    expect(known).toHaveLength(1);
  });

  it("that is rolled back leaves nothing that a library goes on using", async () => {
    const client = await bench.client();
    await client.query(`begin; select ${bench.schema}.declare('fleeting', 'one');
      select ${bench.schema}.enqueue('one', queue => 'fleeting', priority => 9)`);
    await client.query(`select ${bench.schema}.enqueue('work', priority => 33)`);
    await client.query("rollback");
    client.release();
    const made = [
      await jobs.enqueue("one", {}, { queue: "fleeting", priority: 9 }),
      await jobs.enqueue("work", {}, { priority: 33 }),
    ];
    for (const one of made) expect(await row(one)).toMatchObject({ state: "queued" });
    expect(await bench.states()).toEqual({ queued: 2 });
    expect((await row(made[1]!)).priority).toBe(33);
  });
});

describe("a worker", () => {
  it("runs what SQL enqueues, in new priorities too, and jobs.wake wakes it", async () => {
    const ran: unknown[] = [];
    @Injectable()
    class Handlers {
      @JobHandler("by-sql", { concurrency: 3 })
      run(payload: unknown) {
        ran.push(payload);
      }
    }
    await bench.worker([Handlers], { poll: "30s" });
    await jobs.enqueue("by-sql", "warm");
    await until(() => ran.length === 1, { what: "the worker is up" });
    await enqueue(`'by-sql', '"woken"'`);
    await bench.sql("select jobs.wake('default')");
    await until(() => ran.includes("woken"), { what: "the hint" });
    await enqueue(`'by-sql', '"in a new lane"', priority => 77`);
    await until(() => ran.includes("in a new lane"), { what: "the new lane" });
  });

  it("wake of a queue that is not there is refused", async () => {
    for (const name of ["never-made", null]) {
      const refused = bench.sql("select jobs.wake($1)", [name]);
      await expect(refused).rejects.toMatchObject({ code: "42704" });
      await expect(refused).rejects.toThrow(/^queue: expected one that exists, found/);
    }
  });
});
