import type { MigrationInterface, QueryRunner } from "typeorm";
import { OptionsCheck } from "../job/options-check.js";
import { type ParsedRoles, type Roles, parseRoles } from "../job/roles.js";
import { SCHEMA_NAME, isSchemaName } from "../job/schema-name.js";
import { type TransactionLike, onTransaction } from "../queue/transaction.js";
import { MIGRATIONS, applyWithin } from "../store/migrations/migrate.js";
import type { Migration } from "../store/migrations/migration.js";

/** TypeORM orders migrations by the 13 digits at the end of their names: ours come before those of the app. */
const FIRST = 1_600_000_000_000;

/**
 * The tables of nestjs-pg-jobs as TypeORM migrations: `migrations: [...jobsMigrations(), ...yours]`.
 * They write the same ledger as `pg-jobs migrate`: whichever comes second finds it done.
 * @param options `schema`, default 'jobs': the same as in `JobsModule.forRoot()`; `roles` get what they need with each of
 * these migrations that is run.
 * @throws OptionsError
 */
export function jobsMigrations(
  options: { schema?: string; roles?: Roles } = {},
): (new () => MigrationInterface)[] {
  const check = new OptionsCheck("options of jobsMigrations");
  const given = check.object("", options, ["schema", "roles"]) ? options : {};
  const { schema = "jobs" } = given;
  if (!isSchemaName(schema)) check.expected("schema", SCHEMA_NAME, schema);
  const roles = parseRoles(check, given.roles);
  check.done();
  return MIGRATIONS.map((migration) => migrationClass(migration, schema, roles));
}

function migrationClass(
  { version, name }: Migration,
  schema: string,
  roles: ParsedRoles,
): new () => MigrationInterface {
  return class implements MigrationInterface {
    name = `NestjsPgJobs_${schema}_${name}_${FIRST + version}`;

    async up(runner: QueryRunner): Promise<void> {
      // With `transaction: 'none'` we make one of our own: half a migration would be the worst of all.
      const own = !runner.isTransactionActive;
      if (own) await runner.startTransaction();
      try {
        await applyWithin(onTransaction(answering(runner), schema), schema, version, roles);
        if (own) await runner.commitTransaction();
      } catch (error) {
        if (own && runner.isTransactionActive) await runner.rollbackTransaction();
        throw error;
      }
    }

    async down(): Promise<void> {
      throw new Error(
        `The migration "${name}" of schema "${schema}" is not reverted: that would remove jobs. The release ` +
          `before works on the newer schema too. To remove everything, drop the schema by hand.`,
      );
    }
  };
}

/** TypeORM answers nothing to several statements at once, which a migration is. */
const answering = (runner: QueryRunner): TransactionLike => ({
  query: async (sql, params) => (await runner.query(sql, params)) ?? [],
});
