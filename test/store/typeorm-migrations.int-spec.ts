import { jobsMigrations } from "nestjs-pg-jobs/typeorm";
import { DataSource, type DataSourceOptions, type MigrationInterface } from "typeorm";
import { MIGRATIONS, MigrationDriftError } from "../../libs/jobs/src/store/migrations/migrate.js";
import { Bench } from "../support/harness.js";

// The same schema by way of TypeORM: one ledger, whoever writes it.

const ALL = MIGRATIONS.map(({ version }) => version);

let bench: Bench;
const sources: DataSource[] = [];
beforeEach(async () => void (bench = await Bench.open({ migrated: false })));
afterEach(async () => {
  for (const source of sources.splice(0)) if (source.isInitialized) await source.destroy();
  await bench.sql(`drop table if exists ${ledgerOfTypeOrm()}`);
  await bench.close();
});

const ledgerOfTypeOrm = () => `public."${bench.schema}_typeorm"`;

/** A migration of the app, which needs our tables. */
function yours(run: string): new () => MigrationInterface {
  return class {
    name = "UsesJobs1700000000000";
    up = async (runner: { query(sql: string): Promise<unknown> }) => void (await runner.query(run));
    down = async () => {};
  } as unknown as new () => MigrationInterface;
}

async function source(extra: Partial<DataSourceOptions> = {}): Promise<DataSource> {
  const made = new DataSource({
    type: "postgres",
    url: bench.url,
    migrations: jobsMigrations({ schema: bench.schema }),
    migrationsTableName: `${bench.schema}_typeorm`,
    ...extra,
  } as DataSourceOptions);
  sources.push(made);
  return await made.initialize();
}

const ledger = async () =>
  await bench.sql<{ version: number; checksum: string }>(
    "select version, checksum from jobs.migration order by version",
  );

describe("jobsMigrations", () => {
  it.each(["all", "each", "none"] as const)(
    "makes what migrate makes, in transactions: %s",
    async (transaction) => {
      const dataSource = await source();
      const ran = await dataSource.runMigrations({ transaction });
      expect(ran).toHaveLength(ALL.length);
      expect(await bench.migrate()).toEqual([]);
      expect(await dataSource.runMigrations()).toEqual([]);
      const byUs = await Bench.open();
      const theirs = await byUs.sql(
        "select version, checksum from jobs.migration order by version",
      );
      await byUs.close();
      expect(await ledger()).toEqual(theirs);
      const jobs = await bench.producer();
      expect(await bench.state((await jobs.enqueue("work")).id)).toBe("queued");
    },
  );

  it("makes the schema anew after a drop once TypeORM has forgotten it, as documented", async () => {
    const dataSource = await source();
    await dataSource.runMigrations();
    await bench.sql(`drop schema ${bench.schema} cascade`);
    expect(await dataSource.runMigrations()).toEqual([]);
    await bench.sql(
      `delete from ${ledgerOfTypeOrm()} where starts_with(name, 'NestjsPgJobs_${bench.schema}_')`,
    );
    expect(await dataSource.runMigrations()).toHaveLength(ALL.length);
    expect(await ledger()).toHaveLength(ALL.length);
  });

  it("finds done what migrate has done", async () => {
    await bench.migrate();
    const before = await bench.sql("select version, applied_at from jobs.migration order by 1");
    const dataSource = await source();
    expect(await dataSource.runMigrations()).toHaveLength(ALL.length);
    expect(await bench.sql("select version, applied_at from jobs.migration order by 1")).toEqual(
      before,
    );
    expect(await dataSource.showMigrations()).toBe(false);
  });

  it("comes before the migrations of the app, and goes with them when one fails", async () => {
    const broken = [...jobsMigrations({ schema: bench.schema }), yours("select 1 / 0")];
    const failing = await source({ migrations: broken });
    await expect(failing.runMigrations({ transaction: "all" })).rejects.toThrow(/division by zero/);
    expect(await bench.sql(`select from pg_namespace where nspname = '${bench.schema}'`)).toEqual(
      [],
    );
    const works = yours(`select count(*) from ${bench.schema}.job`);
    const mended = await source({
      migrations: [works, ...jobsMigrations({ schema: bench.schema })],
    });
    const ran = await mended.runMigrations({ transaction: "all" });
    expect(ran.map(({ name }) => name).at(-1)).toBe("UsesJobs1700000000000");
  });

  it("leaves no rest of a migration that failed, without TypeORM's transaction", async () => {
    await bench.sql(`create schema ${bench.schema}`);
    await bench.sql("create table jobs.chore (mine integer)");
    const dataSource = await source();
    await expect(dataSource.runMigrations({ transaction: "none" })).rejects.toThrow(/chore/);
    const left = await bench.sql(
      `select relname from pg_class where relnamespace = '${bench.schema}'::regnamespace and relkind = 'r'`,
    );
    expect(left).toEqual([{ relname: "chore" }]);
  });

  it("gives the time-outs of the transaction back", async () => {
    const dataSource = await source();
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await runner.query("set local lock_timeout = '1234ms'; set local statement_timeout = '56s'");
    for (const Step of jobsMigrations({ schema: bench.schema })) await new Step().up(runner);
    expect(
      await runner.query(
        "select current_setting('lock_timeout') as l, current_setting('statement_timeout') as s",
      ),
    ).toEqual([{ l: "1234ms", s: "56s" }]);
    await runner.rollbackTransaction();
    await runner.release();
  });

  it("refuses a schema that another release has made", async () => {
    await bench.migrate();
    await bench.sql("update jobs.migration set checksum = 'edited' where version = 1");
    const dataSource = await source();
    await expect(dataSource.runMigrations()).rejects.toThrow(MigrationDriftError);
  });

  it("does not revert what would take the jobs with it", async () => {
    const dataSource = await source();
    await dataSource.runMigrations();
    await expect(dataSource.undoLastMigration()).rejects.toThrow(/not reverted.*drop the schema/);
    expect(await ledger()).toHaveLength(ALL.length);
  });

  it("serves several schemas of one DataSource", async () => {
    const other = await Bench.open({ migrated: false });
    try {
      const both = [bench, other].flatMap(({ schema }) => jobsMigrations({ schema }));
      const dataSource = await source({ migrations: both });
      await dataSource.runMigrations();
      expect(await other.migrate()).toEqual([]);
      expect(await bench.migrate()).toEqual([]);
    } finally {
      await other.close();
    }
  });

  it.each([
    [{ schema: "Jobs" }, /schema: expected 1\.\.63 of a-z.*found "Jobs"/],
    [{ schema: 5 }, /schema: expected 1\.\.63.*found/],
    [{ shema: "jobs" }, /did you mean schema/],
    ["jobs", /expected an object/],
  ])("refuses %j", (options, message) => {
    expect(() => jobsMigrations(options as object)).toThrow(message);
  });
});
