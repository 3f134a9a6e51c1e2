import { parseArgs } from "node:util";
import { JobsError } from "../job/errors.js";
import { nearest } from "../job/options-check.js";
import { isPostgresUrl, isSchemaName } from "../jobs.options.js";
import { fromUrl } from "../pg/connection.js";
import { Database } from "../pg/database.js";
import { ConnectionLostError, type Session } from "../pg/session.js";
import { sqlState } from "../pg/sqlstate.js";
import { MigrationDriftError, migrate, plan } from "../store/migrations/migrate.js";

// Starts fast: it loads nothing of Nest.

const HELP = `pg-jobs: the tables of nestjs-pg-jobs

  pg-jobs migrate   brings the schema up to date
  pg-jobs plan      prints the SQL that migrate would run

  --url URL         the database; default: the environment's DATABASE_URL
  --schema NAME     default: the environment's JOBS_SCHEMA, else jobs
`;

const COMMANDS: Record<string, (session: Session) => Promise<string>> = {
  migrate: async (session) => {
    const applied = await migrate(session);
    return applied.length === 0
      ? "nothing to do: the schema is up to date\n"
      : `applied ${applied.join(", ")}\n`;
  },
  plan: async (session) => (await plan(session)) || "-- nothing to do: the schema is up to date\n",
};

/** Runs the command line; answers the exit code: 0 done, 1 failed, 2 not understood. */
export async function main(
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<number> {
  const asked = understand(args, env);
  if (typeof asked === "string") return complain(asked, 2);
  if (asked === undefined) {
    process.stdout.write(HELP);
    return 0;
  }
  const database = new Database(fromUrl(asked.url), asked.schema, 1);
  try {
    process.stdout.write(await asked.command(database.open("front")));
    return 0;
  } catch (error) {
    return complain(reason(error), 1);
  } finally {
    await database.close();
  }
}

function understand(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
):
  | { command: (session: Session) => Promise<string>; url: string; schema: string }
  | string
  | undefined {
  let parsed;
  try {
    parsed = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        url: { type: "string" },
        schema: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    return (error as Error).message;
  }
  const [name, ...more] = parsed.positionals;
  if (parsed.values.help || name === undefined || name === "help") return undefined;
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) {
    const near = nearest(name, Object.keys(COMMANDS));
    return `unknown command "${name}"${near ? `; did you mean "${near}"?` : ""}`;
  }
  if (more.length > 0) return `expected one command, found also "${more.join(" ")}"`;
  const url = parsed.values.url || env.DATABASE_URL;
  if (!url) return "expected the database as --url or DATABASE_URL, found neither";
  // the URL itself stays out of the message: it holds the password
  if (!isPostgresUrl(url))
    return "expected --url or DATABASE_URL to begin with postgres:// and to have no spaces";
  const schema = parsed.values.schema ?? (env.JOBS_SCHEMA || "jobs");
  if (!isSchemaName(schema))
    return `expected --schema or JOBS_SCHEMA of 1..63 of a-z, 0-9 and _, not beginning with a digit, found "${schema}"`;
  return { command, url, schema };
}

function reason(error: unknown): string {
  if (error instanceof ConnectionLostError)
    return `cannot reach the database: ${(error.cause as Error | undefined)?.message ?? error.message}`;
  if (error instanceof JobsError || error instanceof MigrationDriftError || sqlState(error))
    return (error as Error).message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function complain(message: string, code: number): number {
  process.stderr.write(`pg-jobs: ${message}\n`);
  return code;
}
