import { type Runner, Statement } from "./statement.js";

/**
 * What may still execute a statement whose connection was lost: a server process; or, behind a pooler, whichever
 * goes by this name, until this time of the database's clock.
 */
export type Backend = { readonly pid: number } | { readonly name: string; readonly until: string };

// Only one of our own: the number may belong to somebody else by now.
const endProcess = new Statement(
  null,
  () => `
select pg_terminate_backend(pid, 2000) from pg_stat_activity
where pid = $1::integer and pid <> pg_backend_pid() and usename = current_user and application_name like 'pg-jobs %'`,
);

// now() is older than what pg_stat_activity shows: whatever began in time has had its name before that.
const endNamed = new Statement(
  null,
  () => `
select now() > $2::timestamptz and coalesce(bool_and(pg_terminate_backend(pid, 2000)), true) from pg_stat_activity
where application_name = $1::text and pid <> pg_backend_pid() and usename = current_user`,
);

/**
 * Ends what may still execute a statement whose connection was lost, so that nothing it was sent is executed any
 * more; answers whether that is so. A statement can reach the server, or wake up there, long after its sender
 * gave it up.
 */
export async function endBackend(runner: Runner, backend: Backend): Promise<boolean> {
  const [row] =
    "pid" in backend
      ? await runner.run(endProcess, [backend.pid])
      : await runner.run(endNamed, [backend.name, backend.until]);
  return row === undefined || row[0] === "t";
}
