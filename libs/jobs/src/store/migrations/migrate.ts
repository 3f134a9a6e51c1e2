import { NO_ROLES, type ParsedRoles } from "../../job/roles.js";
import type { Session } from "../../pg/session.js";
import { type Runner, Statement } from "../../pg/statement.js";
import { isLockTimeout, isMissingSchema, isTransient } from "../../pg/sqlstate.js";
import { spine } from "./0001-spine.js";
import { foundation } from "./0002-foundation.js";
import { schedules } from "./0003-schedules.js";
import { liveControl } from "./0004-live-control.js";
import { limits } from "./0005-limits.js";
import { events } from "./0006-events.js";
import { lines } from "./0007-lines.js";
import { operators } from "./0008-operators.js";
import { watch } from "./0009-watch.js";
import { checkRoles, grant, grantsText } from "./grants.js";
import { type Migration, checksum } from "./migration.js";

/** Every step of the schema, oldest first. Applied ones never change: the ledger keeps their checksums. */
export const MIGRATIONS: readonly Migration[] = [
  spine,
  foundation,
  schedules,
  liveControl,
  limits,
  events,
  lines,
  operators,
  watch,
];

/** The schema version that this release needs at least; it uses what newer ones add when it is there. */
export const NEEDED_VERSION = 1;

/** The schema version that has everything this release can use. */
export const FULL_VERSION = MIGRATIONS.at(-1)!.version;

/** An applied migration is not the one that this release knows: somebody edited one of them. */
export class MigrationDriftError extends Error {
  override readonly name = "MigrationDriftError";
  constructor(
    readonly version: number,
    found: string,
    expected: string,
  ) {
    super(
      `migration ${version} was applied with checksum ${found}, this release has ${expected}: install the release that wrote it, or compare the schemas by hand`,
    );
  }
}

const hasSchema = new Statement(null, () => `select 1 from pg_namespace where nspname = $1::text`);
const makeSchema = new Statement(null, (jobs) => `create schema ${jobs}`);
// Whoever enqueues waits behind our lock request, and for 2 s at most.
const BOUNDED = "set local lock_timeout = '1s'";
const boundedLocks = new Statement(null, () => BOUNDED);
/** A step may build an index over millions of rows, and another process waits for it. */
const REPLY_MS = 6 * 3_600_000;
// One key for all schemas of a database: their migrations wait for one another, which harms nobody.
const lock = new Statement(null, () => `select pg_advisory_xact_lock(7463825)`, REPLY_MS);
const patient = new Statement(
  null,
  () => `set local statement_timeout = 0; set local lock_timeout = 0`,
);
const readTimeouts = new Statement(
  null,
  () =>
    `select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as locks`,
);
const setTimeouts = new Statement(
  null,
  () =>
    `select set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $2::text, true)`,
);
const LEDGER = (jobs: string) => `create table if not exists ${jobs}.migration (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default now()
)`;
const makeLedger = new Statement(null, LEDGER);
const readLedger = new Statement(
  null,
  (jobs) => `select version, checksum from ${jobs}.migration order by version`,
);
const NOTE = (jobs: string) => `insert into ${jobs}.migration (version, name, checksum) values `;
const noteApplied = new Statement(null, (jobs) => `${NOTE(jobs)}($1::integer, $2::text, $3::text)`);

const ATTEMPTS = 10;

/**
 * Brings the schema up to date, and gives these roles what they need on it; answers the versions that were applied. Safe
 * when many processes start at once. @throws OptionsError for a role that does not exist; nothing is done then.
 */
export async function migrate(session: Session, roles = NO_ROLES): Promise<number[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await session.transaction((run) => applyPending({ run }, session.schema, { roles }));
    } catch (error) {
      // Somebody's long transaction holds a table: let the traffic behind our lock request pass, then try again.
      if (attempt === ATTEMPTS || !(isLockTimeout(error) || isTransient(error))) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200 * attempt));
    }
  }
}

/** The same up to one version inside somebody's transaction, whose own settings hold again afterwards. */
export async function applyWithin(
  runner: Runner,
  schema: string,
  version: number,
  roles = NO_ROLES,
): Promise<number[]> {
  const [timeouts] = await runner.run(readTimeouts);
  const applied = await applyPending(runner, schema, { last: version, roles });
  await runner.run(setTimeouts, [...timeouts!]);
  return applied;
}

async function applyPending(
  runner: Runner,
  schema: string,
  { last = FULL_VERSION, roles }: { last?: number; roles: ParsedRoles },
): Promise<number[]> {
  await checkRoles(runner, roles);
  await runner.run(patient);
  await runner.run(lock);
  await runner.run(boundedLocks);
  if ((await runner.run(hasSchema, [schema])).length === 0) await runner.run(makeSchema);
  await runner.run(makeLedger);
  const applied: number[] = [];
  for (const migration of pending(await ledger(runner))) {
    if (migration.version > last) break;
    await runner.run(new Statement(null, migration.sql, REPLY_MS));
    await runner.run(noteApplied, [migration.version, migration.name, checksum(migration)]);
    applied.push(migration.version);
  }
  // To the whole of it each time: what a migration adds is new to them.
  await grant(runner, roles, last);
  return applied;
}

/** The SQL of what is not applied yet and of the rights of roles, for people who run it themselves; '' when there is nothing to do. */
export async function plan(session: Session, roles = NO_ROLES): Promise<string> {
  const applied = await ledger(session).catch((error: unknown) => {
    if (isMissingSchema(error)) return new Map<number, string>();
    throw error;
  });
  const todo = pending(applied);
  const jobs = `"${session.schema}"`;
  const grants = grantsText(jobs, roles, FULL_VERSION);
  if (todo.length === 0) return grants && `${grants}\n`;
  const parts = todo.map(
    (one) =>
      `-- ${one.version} ${one.name}\n${one.sql(jobs).trim()}\n${NOTE(jobs)}(${one.version}, '${one.name}', '${checksum(one)}');`,
  );
  return [
    "begin;",
    "select pg_advisory_xact_lock(7463825);",
    `${BOUNDED};`,
    `create schema if not exists ${jobs};`,
    `${LEDGER(jobs)};`,
    ...parts,
    ...(grants ? [`-- roles\n${grants}`] : []),
    "commit;",
    "",
  ].join("\n");
}

/** The newest applied version; 0 without a schema. */
export async function schemaVersion(runner: Runner): Promise<number> {
  try {
    return Math.max(0, ...(await ledger(runner)).keys());
  } catch (error) {
    if (isMissingSchema(error)) return 0;
    throw error;
  }
}

async function ledger(runner: Runner): Promise<Map<number, string>> {
  return new Map((await runner.run(readLedger)).map(([version, sum]) => [Number(version), sum!]));
}

function pending(applied: ReadonlyMap<number, string>): Migration[] {
  return MIGRATIONS.filter((migration) => {
    const found = applied.get(migration.version);
    if (found !== undefined && found !== checksum(migration)) {
      throw new MigrationDriftError(migration.version, found, checksum(migration));
    }
    return found === undefined;
  });
}
