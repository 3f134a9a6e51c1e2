import { parseArgs } from "node:util";
import { JobsError } from "../job/errors.js";
import { describe, nearest } from "../job/options-check.js";
import { postgresUrlProblem } from "../job/postgres-url.js";
import { SCHEMA_NAME, isSchemaName } from "../job/schema-name.js";
import { fromUrl } from "../pg/connection.js";
import { Database } from "../pg/database.js";
import { ConnectionRefusedError } from "../pg/connect.js";
import { READ_ONLY_ADVICE, readOnlyWords } from "../pg/read-only.js";
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
  const parsed = readOptions(args);
  if (typeof parsed === "string") return parsed;
  const { values } = parsed;
  const [name, ...more] = parsed.positionals;
  if (values.help !== undefined || name === undefined || name === "help") return undefined;
  const names = Object.keys(COMMANDS);
  if (!names.includes(name)) return `unknown command ${describe(name)}, ${advice(name, names)}`;
  const command = COMMANDS[name]!;
  if (more.length > 0) return `expected one command, found also ${describe(more.join(" "))}`;
  // an empty --url is a variable that is not set: another database must not be taken for it
  if (values.url === "") return "expected the database as --url, found an empty text";
  const url = values.url ?? env.DATABASE_URL;
  if (!url) return "expected the database as --url or DATABASE_URL, found neither";
  const problem = postgresUrlProblem(url);
  if (problem !== undefined) return `--url or DATABASE_URL: ${problem}`;
  const schema = values.schema ?? (env.JOBS_SCHEMA || "jobs");
  if (!isSchemaName(schema))
    return `expected --schema or JOBS_SCHEMA of ${SCHEMA_NAME}, found "${String(schema)}"`;
  return { command, url, schema };
}

const OPTIONS = {
  url: { type: "string" },
  schema: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const;

type Values = Partial<Record<keyof typeof OPTIONS, string>>;

/** Not strict: Node's own messages take three lines, and know of no "did you mean". */
function readOptions(args: readonly string[]): { values: Values; positionals: string[] } | string {
  const { tokens, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    strict: false,
    tokens: true,
    options: OPTIONS,
  });
  const values: Values = {};
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const { name, rawName, value, inlineValue } = token;
    if (!isOption(name)) {
      const near = advice(name, Object.keys(OPTIONS), "--");
      return `unknown option ${rawName}, ${near}`;
    }
    if (OPTIONS[name].type === "boolean") {
      if (value !== undefined) return `expected ${rawName} alone, found a value`;
    } else if (value === undefined || (!inlineValue && value.startsWith("-"))) {
      return `expected a value after ${rawName}, found ${value ?? "none"}`;
    }
    values[name] = value ?? "";
  }
  return { values, positionals };
}

const isOption = (name: string): name is keyof typeof OPTIONS => Object.hasOwn(OPTIONS, name);

function advice(found: string, words: readonly string[], prefix = ""): string {
  const near = nearest(found, words);
  return near === undefined
    ? `known are ${words.map((word) => prefix + word).join(", ")}`
    : `did you mean ${prefix}${near}?`;
}

function reason(error: unknown): string {
  const readOnly = readOnlyWords(error);
  if (readOnly !== undefined)
    return `the database takes no writes: ${readOnly}; ${READ_ONLY_ADVICE}`;
  if (error instanceof ConnectionLostError)
    return `cannot reach the database: ${(error.cause as Error | undefined)?.message ?? error.message}`;
  if (error instanceof ConnectionRefusedError) return `cannot connect: ${error.message}`;
  if (error instanceof JobsError || error instanceof MigrationDriftError || sqlState(error))
    return (error as Error).message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function complain(message: string, code: number): number {
  process.stderr.write(`pg-jobs: ${message}\n`);
  return code;
}
