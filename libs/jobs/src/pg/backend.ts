import { type Runner, Statement } from "./statement.js";

// Only one of our own: the number may belong to somebody else by now, or be a pooler's.
const terminate = new Statement(
  null,
  () => `
select pg_terminate_backend(pid, 2000) from pg_stat_activity
where pid = $1::integer and pid <> pg_backend_pid() and usename = current_user and application_name like 'pg-jobs %'`,
);

/**
 * Ends a server process whose connection was lost, so that nothing it was sent is executed any more; answers
 * whether it is gone. A statement can reach the server, or wake up there, long after its sender gave it up.
 */
export async function endBackend(runner: Runner, pid: number): Promise<boolean> {
  const [row] = await runner.run(terminate, [pid]);
  return row === undefined || row[0] === "t";
}
