import { OptionsError } from "../../job/errors.js";
import type { ParsedRoles, RoleOf } from "../../job/roles.js";
import { type Runner, Statement } from "../../pg/statement.js";

// What each role may do. Functions that make and drop days run with the rights of the schema's owner, so nobody here needs
// any on the tables' definitions.

/** From which version of the schema on, which right, on what. */
type Right = readonly [since: number, right: string, ...on: string[]];

const SELECT = "select on";
const INSERT = "insert on";
const UPDATE = "update on";
const DELETE = "delete on";

const PRODUCER: readonly Right[] = [
  [1, "usage on schema", ""],
  [1, "usage on sequence", "job_id"],
  [1, SELECT, "migration", "queue", "lane", "job", "done", "dead", "worker", "job_status"],
  [1, INSERT, "queue", "lane", "job", "done", "stat_delta"],
  // who makes a lane raises it; what workers keep there is not theirs
  [1, "update (version) on", "queue"],
  [1, UPDATE, "job"],
  [1, DELETE, "job"],
  [2, SELECT, "dead_archive", "dedup", "progress"],
  [2, INSERT, "dedup", "event"],
  [2, UPDATE, "dedup"],
  [2, DELETE, "dedup"],
  [3, "select, insert, update, delete on", "schedule"],
  [4, SELECT, "pause"],
  [4, INSERT, "control"],
  [6, SELECT, "subscription"],
];

/** Limits, as those who claim and those who set them need them. */
const LIMITS: readonly Right[] = [
  [
    5,
    "select, insert, update, delete on",
    "limit_rule",
    "limit_said",
    "limit_gate",
    "slot",
    "parked",
    "bucket",
    "key_pause",
  ],
  [5, "select, usage on sequence", "slot_order"],
  [5, "update (version, limited) on", "queue"],
];

const WORKER: readonly Right[] = [
  ...PRODUCER,
  [1, SELECT, "attempt_error", "chore", "stat", "stat_delta"],
  [1, INSERT, "dead", "attempt_error", "worker", "stat", "chore"],
  // of dead letters: those that go by their age are locked, nothing changes them
  [1, UPDATE, "queue", "worker", "chore", "stat", "dead"],
  [1, DELETE, "dead", "worker", "stat_delta"],
  [2, SELECT, "event", "job_log", "daily"],
  [2, INSERT, "dead_archive", "progress", "job_log"],
  [2, UPDATE, "progress", "dead_archive"],
  [2, DELETE, "dead_archive", "progress"],
  [2, "execute on function", "drop_partition(text)"],
  [4, "select, delete on", "control"],
  ...LIMITS,
  [6, "insert, update on", "subscription"],
];

const ADMIN: readonly Right[] = [
  ...PRODUCER,
  [1, "select on all tables in schema", ""],
  [1, "update, delete on", "dead", "done"],
  [1, INSERT, "chore"],
  [2, "update, delete on", "dead_archive"],
  [4, "insert, update, delete on", "pause"],
  ...LIMITS,
  [6, DELETE, "subscription"],
  [8, "select, insert, update on", "bulk"],
  [8, INSERT, "audit"],
  // what was written of a deed stays
  [8, "update (outcome, ended_at) on", "audit"],
  [8, "insert, update, delete on", "request"],
];

const RIGHTS: Record<RoleOf, readonly Right[]> = {
  producer: PRODUCER,
  worker: WORKER,
  admin: ADMIN,
};

/** The grants that these roles need on a schema of this version, one a line; '' for none. May be repeated. */
export function grantsText(jobs: string, roles: ParsedRoles, version: number): string {
  return [...roles]
    .flatMap(([role, names]) => {
      const to = names.map(quoted).join(", ");
      return RIGHTS[role]
        .filter(([since]) => since <= version)
        .map(([, right, ...on]) => `grant ${right} ${named(jobs, on)} to ${to};`);
    })
    .join("\n");
}

const named = (jobs: string, on: readonly string[]): string =>
  on.map((name) => (name === "" ? jobs : `${jobs}.${name}`)).join(", ");

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

const missing = new Statement(
  null,
  () =>
    `select name from unnest($1::text[]) name where not exists (select from pg_roles where rolname = name)`,
);

/** Rejects for a role that does not exist, before anything is done. @throws OptionsError */
export async function checkRoles(runner: Runner, roles: ParsedRoles): Promise<void> {
  if (roles.size === 0) return;
  const rows = await runner.run(missing, [[...new Set([...roles.values()].flat())]]);
  const absent = new Set(rows.map(([name]) => name!));
  if (absent.size === 0) return;
  const problems = [...roles].flatMap(([role, names]) =>
    names
      .filter((name) => absent.has(name))
      .map(
        (name) =>
          `${role}: expected a role that exists, found none of the name ${JSON.stringify(name)}; create role ${quoted(name)} login`,
      ),
  );
  throw new OptionsError("roles", problems);
}

/** Gives the roles what they need. */
export async function grant(runner: Runner, roles: ParsedRoles, version: number): Promise<void> {
  if (roles.size === 0) return;
  await runner.run(new Statement(null, (jobs) => grantsText(jobs, roles, version)));
}
