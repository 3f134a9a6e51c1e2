import { SchemaNotReadyError } from "nestjs-pg-jobs";
import { Session } from "../../libs/jobs/src/pg/session.js";
import {
  MigrationDriftError,
  MIGRATIONS,
  migrate,
  plan,
} from "../../libs/jobs/src/store/migrations/migrate.js";
import { firstRelease } from "../support/first-release.js";
import { Bench, behindPooler } from "../support/harness.js";
import { until } from "../support/until.js";

// The schema is made by explicit migrations: once, however many start at once, and never by surprise.

const ALL = MIGRATIONS.map(({ version }) => version);

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open({ migrated: false })));
afterEach(async () => await bench.close());

/** Everything a schema consists of, by the catalogs, without its name. */
async function catalog(of: Bench): Promise<string[]> {
  const rows = await of.sql<{ line: string }>(
    `with mine as (select oid from pg_namespace where nspname = '${of.schema}')
     select 'relation ' || relname || ' ' || relkind::text || ' ' || relreplident::text || ' ' || coalesce(reloptions::text, '') as line
     from pg_class where relnamespace in (select oid from mine)
     union all
     select 'column ' || relname || ' ' || attnum || ' ' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull::text
       || ' ' || attidentity::text || ' ' || coalesce(pg_get_expr(adbin, adrelid), '') || ' ' || coalesce(attcollation::regcollation::text, '')
     from pg_attribute join pg_class c on c.oid = attrelid left join pg_attrdef on adrelid = attrelid and adnum = attnum
     where relnamespace in (select oid from mine) and attnum > 0 and not attisdropped
     union all
     select 'index ' || pg_get_indexdef(indexrelid) from pg_index join pg_class c on c.oid = indexrelid
     where relnamespace in (select oid from mine)
     union all
     select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
     from pg_constraint where connamespace in (select oid from mine)
     union all
     select 'function ' || pg_get_functiondef(oid) from pg_proc where pronamespace in (select oid from mine)
     union all
     select 'trigger ' || pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = tgrelid
     where relnamespace in (select oid from mine) and not tgisinternal
     union all
     select 'view ' || viewname || ' ' || definition from pg_views where schemaname = '${of.schema}'
     union all
     select 'sequence ' || sequencename || ' ' || increment_by || ' ' || data_type from pg_sequences where schemaname = '${of.schema}'`,
  );
  const chores = await of.sql<{ line: string }>(
    "select 'chore ' || name || every as line from jobs.chore",
  );
  const ledger = await of.sql<{ line: string }>(
    "select 'applied ' || version || name || checksum as line from jobs.migration",
  );
  return [...rows, ...chores, ...ledger].map(({ line }) => line.replaceAll(of.schema, "?")).sort();
}

const sessions = (count: number) => Array.from({ length: count }, () => bench.session());

describe("migrate", () => {
  it("applies everything once, however many start at once", async () => {
    const answers = await Promise.all(sessions(10).map(async (session) => await migrate(session)));
    expect(answers.filter((applied) => applied.length > 0)).toEqual([ALL]);
    expect(await bench.sql("select version from jobs.migration")).toHaveLength(ALL.length);
    expect(await bench.migrate()).toEqual([]);
  });

  it("uses a schema that is there, and leaves what else is in it", async () => {
    await bench.sql(`create schema ${bench.schema}`);
    await bench.sql("create table jobs.mine (id integer)");
    expect(await bench.migrate()).toEqual(ALL);
    expect(await bench.sql("select * from jobs.mine")).toEqual([]);
  });

  it("leaves nothing behind when it fails half-way", async () => {
    await bench.sql(`create schema ${bench.schema}`);
    await bench.sql("create table jobs.chore (mine integer)");
    await expect(bench.migrate()).rejects.toThrow(/chore/);
    const relations = await bench.sql(
      "select relname from pg_class where relnamespace = $1::regnamespace",
      [bench.schema],
    );
    expect(relations).toEqual([{ relname: "chore" }]);
    await bench.sql("drop table jobs.chore");
    expect(await bench.migrate()).toEqual(ALL);
  });

  it("starts again after a deadlock with whoever holds a table", async () => {
    await bench.migrate();
    const client = await bench.client();
    await client.query("set deadlock_timeout = '1min'");
    await client.query(`begin; lock table ${bench.schema}.migration in access exclusive mode`);
    const migrating = bench.migrate();
    migrating.catch(() => undefined);
    const blocked =
      "select 1 from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0";
    await until(async () => (await bench.sql(blocked)).length, { what: "it waits" });
    // The lock of all migrations is free when ours has been the victim.
    await client.query("select pg_advisory_xact_lock(7463825)");
    await client.query("rollback");
    client.release(true);
    expect(await migrating).toEqual([]);
  });

  it("refuses nobody who enqueues while it waits for somebody's transaction", async () => {
    const old = await firstRelease();
    try {
      const jobs = await old.producer();
      await jobs.enqueue("work", {});
      const client = await old.client();
      await client.query(`begin; select from ${old.schema}.queue`);
      const migrating = old.migrate();
      const end = performance.now() + 6_000;
      while (performance.now() < end) await jobs.enqueue("work", {});
      expect(await old.sql("select version from jobs.migration")).toHaveLength(1);
      await client.query("commit");
      client.release();
      expect(await migrating).toEqual(ALL.slice(1));
    } finally {
      await old.close();
    }
  });

  it("may take longer than any other statement", async () => {
    const old = await firstRelease();
    const session = new Session({
      config: { connectionString: old.url },
      schema: old.schema,
      name: "pg-jobs front",
      replyTimeout: 400,
    });
    try {
      const client = await old.client();
      await client.query(`begin; select from ${old.schema}.queue`);
      const migrating = migrate(session);
      migrating.catch(() => undefined);
      const from = performance.now();
      await until(() => performance.now() - from > 1_500);
      await client.query("commit");
      client.release();
      expect(await migrating).toEqual(ALL.slice(1));
    } finally {
      await session.close();
      await old.close();
    }
  });

  it("refuses a schema whose migrations are not those of this release", async () => {
    await bench.migrate();
    await bench.sql("update jobs.migration set checksum = 'edited'");
    for (const act of [migrate, plan]) {
      const refused = act(bench.session());
      await expect(refused).rejects.toThrow(MigrationDriftError);
      await expect(refused).rejects.toThrow(/migration 1 .*edited.*release/);
    }
  });

  it("works beside another schema of the same database", async () => {
    const other = await Bench.open();
    try {
      await bench.migrate();
      expect(await catalog(bench)).toEqual(await catalog(other));
      const [mine, theirs] = [await bench.producer(), await other.producer()];
      const { id } = await mine.enqueue("work", { mine: true }, { key: "k" });
      expect(await theirs.enqueue("work", {}, { key: "k" })).toEqual({ id, deduplicated: false });
      expect((await mine.get(id))!.payload).toEqual({ mine: true });
      expect((await theirs.get(id))!.payload).toEqual({});
    } finally {
      await other.close();
    }
  });
});

describe("plan", () => {
  it("is SQL that makes what migrate makes, and then there is nothing to do", async () => {
    const other = await Bench.open();
    try {
      const text = await plan(bench.session());
      expect(
        await bench.sql("select 1 from pg_namespace where nspname = $1", [bench.schema]),
      ).toEqual([]);
      await bench.sql(text);
      expect(await catalog(bench)).toEqual(await catalog(other));
      expect(await plan(bench.session())).toBe("");
      expect(await bench.migrate()).toEqual([]);
    } finally {
      await other.close();
    }
  });

  it("that two people run at once is applied once", async () => {
    const text = await plan(bench.session());
    const runs = await Promise.allSettled(
      [bench.client(), bench.client()].map(async (one) => {
        const client = await one;
        try {
          await client.query(text);
        } catch (error) {
          await client.query("rollback");
          throw error;
        } finally {
          client.release();
        }
      }),
    );
    expect(runs.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(await bench.migrate()).toEqual([]);
  });
});

describe("without a schema", () => {
  it("producers are told so, and work as soon as it is there", async () => {
    const jobs = await bench.producer();
    const client = await bench.client();
    await client.query("begin");
    const calls = () => [
      jobs.enqueue("work", {}),
      jobs.enqueueMany("work", [{}, { payload: {}, key: "k" }]),
      jobs.in(client).enqueue("work", {}),
      jobs.get("1-1"),
      jobs.requeue("1-1"),
    ];
    for (const call of calls()) {
      await expect(call).rejects.toThrow(SchemaNotReadyError);
      await expect(call).rejects.toMatchObject({ schema: bench.schema, found: null, needed: 1 });
    }
    await bench.migrate();
    await expect(Promise.all(calls())).resolves.toHaveLength(5);
    await client.query("commit");
    client.release();
  });

  it("that went and came back, producers go on, with jobs that can be seen", async () => {
    const jobs = await bench.producer();
    await bench.migrate();
    await jobs.enqueue("work", {}, { queue: "elsewhere" });
    await bench.sql(`drop schema ${bench.schema} cascade`);
    await expect(jobs.enqueue("work", {}, { queue: "elsewhere" })).rejects.toThrow(
      SchemaNotReadyError,
    );
    await bench.migrate();
    const others = await bench.producer();
    const made = [
      ...(await others.enqueueMany("work", Array.from({ length: 20 }))),
      await jobs.enqueue("work", {}, { queue: "elsewhere" }),
      await jobs.enqueue("work", {}),
    ];
    for (const { id } of made) expect(await bench.state(id)).toBe("queued");
  });
});

describe("migrate: 'on-start'", () => {
  it("makes the schema before the app is up; 'never' does not", async () => {
    await bench.producer({ migrate: "never" });
    expect(
      await bench.sql("select 1 from pg_namespace where nspname = $1", [bench.schema]),
    ).toEqual([]);
    const producers = [1, 2, 3].map(async () => await bench.producer({ migrate: "on-start" }));
    const [jobs] = await Promise.all(producers);
    await expect(jobs!.enqueue("work", {})).resolves.toMatchObject({ deduplicated: false });
  });

  it("fails the boot when the schema has drifted", async () => {
    await bench.migrate();
    await bench.sql("update jobs.migration set checksum = 'edited'");
    await expect(bench.producer({ migrate: "on-start" })).rejects.toThrow(MigrationDriftError);
    // The connections that a pooler keeps are its own.
    if (behindPooler) return;
    // A process that boots apart from Nest's abort would otherwise never end.
    const left = `select pid from pg_stat_activity where datname = current_database()
      and application_name = 'pg-jobs front' and query = 'rollback'`;
    await until(async () => (await bench.sql(left)).length === 0, {
      what: "its connection is closed",
    });
  });

  it("waits for a database that is away", async () => {
    const { proxy, url } = await bench.line();
    proxy.setMode("reset");
    const jobs = await bench.producer({ connection: { url }, migrate: "on-start" });
    await expect(jobs.enqueue("work", {})).rejects.toMatchObject({ code: "DATABASE_UNAVAILABLE" });
    proxy.setMode("pass");
    await until(async () => await jobs.enqueue("work", {}), { what: "it has been migrated" });
  });
});
