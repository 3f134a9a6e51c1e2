import { type DataSource, MigrationExecutor } from "typeorm";

/** Any number that nobody else in the database locks. */
const LOCK = 7_463_826;

/**
 * Brings the tables of the samples up to date. All in one transaction under an advisory lock, because the apps
 * start at the same time; makes nothing outside the schema `samples`.
 */
export async function ensureSamples(dataSource: DataSource): Promise<void> {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    await runner.query("select pg_advisory_xact_lock($1)", [LOCK]);
    // "create schema if not exists" asks for the right to create one even when it is there
    const there = await runner.query("select from pg_namespace where nspname = 'samples'");
    if (there.length === 0) await runner.query("create schema samples");
    const migrations = new MigrationExecutor(dataSource, runner);
    migrations.transaction = "none"; // it runs in ours
    await migrations.executePendingMigrations();
    await runner.commitTransaction();
  } finally {
    if (runner.isTransactionActive) await runner.rollbackTransaction().catch(() => {});
    await runner.release();
  }
}
