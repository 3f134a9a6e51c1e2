import pg from "pg";
import { endBackend } from "../../libs/jobs/src/pg/backend.js";
import { Borrowed, VALID_MS } from "../../libs/jobs/src/pg/borrowed.js";
import { Database } from "../../libs/jobs/src/pg/database.js";
import { Listener } from "../../libs/jobs/src/pg/listener.js";
import { ConnectionLostError, type Session } from "../../libs/jobs/src/pg/session.js";
import { Statement } from "../../libs/jobs/src/pg/statement.js";
import { type Pgbouncer, pgbouncer, startPgbouncer } from "../../tools/pgbouncer.mjs";
import { Bench, databaseUrl } from "../support/harness.js";
import { until } from "../support/until.js";

const SETTINGS = [
  "timezone",
  "plan_cache_mode",
  "enable_seqscan",
  "synchronous_commit",
  "statement_timeout",
  "lock_timeout",
];
const OF_CLAIMS = ["UTC", "force_generic_plan", "off", "off", "2s", "1s"];
const settings = new Statement(
  "settings",
  () => `select ${SETTINGS.map((name) => `current_setting('${name}')`).join(", ")}, $1::text`,
);
const which = new Statement("which", () => "select pg_backend_pid()");
const forget = new Statement(null, () => "deallocate all");
const write = new Statement(
  "write",
  (jobs) => `update ${jobs}.chore set due_at = $1::timestamptz where name = 'rollup'`,
);
const sleep = new Statement("sleep", () => "select pg_sleep($1::float8)");
const divide = new Statement("divide", () => "select 1 / $1::integer");

describe("straight to the server", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  it("keeps its settings and what it has prepared", async () => {
    const database = new Database({ connectionString: bench.direct }, bench.schema, 1);
    const session = database.open("claim");
    expect(await session.run(settings, ["x"])).toEqual([[...OF_CLAIMS, "x"]]);
    expect(session.pooled).toBe(false);
    const prepared = new Statement(null, () => "select name from pg_prepared_statements");
    expect(await session.run(prepared)).toEqual([["settings"]]);
    await database.close();
  });

  it("that turns out to be a pooler: nothing is prepared from then on", async () => {
    const database = new Database({ connectionString: bench.direct }, bench.schema, 1);
    const session = database.open("claim");
    await session.run(divide, [1]);
    // As if another process answered.
    await session.run(forget);
    await expect(session.run(divide, [1])).rejects.toMatchObject({ sent: false });
    for (let n = 0; n < 2; n++) {
      expect(await session.run(settings, ["x"])).toEqual([[...OF_CLAIMS, "x"]]);
      await session.run(forget);
    }
    expect(session.pooled).toBe(true);
    await database.close();
  });

  it("a clock that has gone wrong since is read again", async () => {
    const client = new pg.Client(bench.direct);
    await client.connect();
    try {
      const borrowed = new Borrowed("pg-jobs test", {}, Date.now() - 60_000);
      const asked = { text: "select $1::text", values: ["x"] };
      expect(await borrowed.run(client, asked)).toEqual([["x"]]);
    } finally {
      await client.end();
    }
  });
});

(pgbouncer ? describe : describe.skip).each<[string, object]>([
  ["that refuses settings", {}],
  ["that drops settings", { ignore_startup_parameters: "options" }],
  ["that pools sessions", { pool_mode: "session", ignore_startup_parameters: "options" }],
])("PgBouncer %s", (kind, more) => {
  const name = new URL(databaseUrl()).pathname.slice(1);
  let bench: Bench;
  let pooler: Pgbouncer;
  let database: Database;
  let session: Session;
  beforeAll(async () => {
    bench = await Bench.open();
    pooler = await startPgbouncer({ url: bench.direct, settings: { ...more } });
  });
  afterAll(async () => {
    await bench.close();
    await pooler.stop();
  });
  beforeEach(() => {
    database = new Database({ connectionString: pooler.url(name) }, bench.schema, 3);
    session = database.open("claim");
  });
  afterEach(async () => await database.close());
  const client = async () => {
    const one = new pg.Client(pooler.url(name));
    await one.connect();
    return one;
  };

  it("each statement has its settings, and nobody else has them", async () => {
    const strangers = await client();
    const seen = async () =>
      (await strangers.query({ text: settings.text("jobs"), values: ["x"], rowMode: "array" }))
        .rows;
    const before = await seen();
    expect(await session.run(settings, ["x"])).toEqual([[...OF_CLAIMS, "x"]]);
    expect(session.pooled).toBe(true);
    expect(await seen()).toEqual(before);
    expect(before).not.toEqual([[...OF_CLAIMS, "x"]]);
    await strangers.end();
  });

  it("a transaction has them, stays on one process, and is undone by an error", async () => {
    const seen = await session.transaction(async (run) => [
      ...(await run(settings, ["x"])),
      await run(which),
      await run(which),
    ]);
    expect(seen[0]).toEqual([...OF_CLAIMS, "x"]);
    expect(seen[1]).toEqual(seen[2]);
    await expect(
      session.transaction(async (run) => {
        await run(write, ["infinity"]);
        await run(divide, [0]);
      }),
    ).rejects.toMatchObject({ code: "22012" });
    await expect(session.run(divide, [0])).rejects.toMatchObject({ code: "22012" });
    await expect(session.run(sleep, [5])).rejects.toMatchObject({ code: "57014" });
    expect(await session.run(divide, [1])).toEqual([["1"]]);
    expect(await bench.sql("select name from jobs.chore where due_at = 'infinity'")).toEqual([]);
  });

  if (kind === "that pools sessions") return;

  it("works on whichever process is free", async () => {
    const [one, other] = [await client(), await client()];
    const seen: unknown[] = [];
    const look = async () => {
      seen.push(...(await session.run(which)).flat());
      expect(await session.run(settings, ["x"])).toEqual([[...OF_CLAIMS, "x"]]);
    };
    await one.query("begin");
    await look();
    await other.query("begin");
    await one.query("commit");
    await look();
    await other.query("commit");
    expect(new Set(seen).size).toBe(2);
    await one.end();
    await other.end();
  });

  it("what waits for a process too long is not executed, and that is certain", async () => {
    const holders = [await client(), await client()];
    for (const holder of holders) await holder.query("begin");
    const asked = performance.now();
    const late = session.run(write, ["infinity"]).catch((error: unknown) => error);
    await until(() => performance.now() - asked > VALID_MS + 200);
    for (const holder of holders) await holder.query("commit");
    expect(await late).toBeInstanceOf(ConnectionLostError);
    expect(await late).toMatchObject({ sent: false });
    expect(await bench.sql("select 1 from jobs.chore where due_at = 'infinity'")).toEqual([]);
    await session.run(write, ["now"]);
    for (const holder of holders) await holder.end();
  });

  it("ends what still runs after its connection was lost, once nothing more can begin", async () => {
    const front = database.open("front");
    const asked = performance.now();
    const lost = front.run(sleep, [20]).catch((error: unknown) => error);
    const runs = async () =>
      await bench.sql(
        "select 1 from pg_stat_activity where application_name like 'pg-jobs front %' and query like '%pg_sleep%' and state = 'active'",
      );
    await until(async () => (await runs()).length === 1, { what: "it runs" });
    await pooler.end("SIGKILL");
    await pooler.start();
    const error = (await lost) as ConnectionLostError;
    expect(error).toMatchObject({ sent: true, backend: { name: expect.any(String) } });
    expect(await runs()).toHaveLength(1);
    // Not at once: something may still wait where we cannot see it.
    await until(async () => await endBackend(front, error.backend!));
    expect(performance.now() - asked).toBeGreaterThan(VALID_MS - 500);
    expect(await runs()).toEqual([]);
  });

  it("listens to nothing there, unless that connection was chosen for it", async () => {
    const told: string[] = [];
    const config = { connectionString: pooler.url(name) };
    const ports = { config, channel: "words", onNotify: () => {} };
    const listener = new Listener({ ...ports, onPooler: () => told.push("pooler") });
    const chosen = new Listener({ ...ports, chosen: true, onConnect: () => told.push("chosen") });
    listener.start();
    chosen.start();
    await until(() => told.length === 2, { what: "both know" });
    expect(told.toSorted()).toEqual(["chosen", "pooler"]);
    expect(listener.connected).toBe(false);
    await Promise.all([listener.close(), chosen.close()]);
  });
});

(pgbouncer ? describe : describe.skip)(
  "PgBouncer before a database with another isolation level",
  () => {
    it("each statement and each transaction is in read committed, and nobody else's", async () => {
      const bench = await Bench.open();
      const change = async (how: string) =>
        await bench.sql(
          `do $$ begin execute format('alter database %I ${how}', current_database()); end $$`,
        );
      await change("set default_transaction_isolation = ''serializable''");
      const pooler = await startPgbouncer({ url: bench.direct, settings: {} });
      const url = pooler.url(new URL(databaseUrl()).pathname.slice(1));
      const database = new Database({ connectionString: url }, bench.schema, 3);
      const stranger = new pg.Client(url);
      try {
        const session = database.open("claim");
        const level = new Statement(null, () => "select current_setting('transaction_isolation')");
        expect(await session.run(level)).toEqual([["read committed"]]);
        expect(session.pooled).toBe(true);
        const inside = await session.transaction(async (run) => [
          await run(level),
          await run(level),
        ]);
        expect(inside).toEqual([[["read committed"]], [["read committed"]]]);
        await expect(session.run(divide, [0])).rejects.toMatchObject({ code: "22012" });
        await expect(session.run(sleep, [5])).rejects.toMatchObject({ code: "57014" });
        expect(await session.run(settings, ["x"])).toEqual([[...OF_CLAIMS, "x"]]);
        await stranger.connect();
        expect((await stranger.query(level.text(""))).rows).toEqual([
          { current_setting: "serializable" },
        ]);
      } finally {
        await stranger.end();
        await database.close();
        await change("reset default_transaction_isolation");
        await pooler.stop();
        await bench.close();
      }
    });
  },
);
