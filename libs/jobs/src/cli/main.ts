import { parseArgs } from "node:util";
import { JobsError } from "../job/errors.js";
import { describe, nearest } from "../job/options-check.js";
import { postgresUrlProblem } from "../job/postgres-url.js";
import { type ParsedRoles, ROLES, ROLE_NAME, type RoleOf, isRoleName } from "../job/roles.js";
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
  --producer ROLE   what enqueues, or runs jobs, or looks and requeues, gets the
  --worker ROLE     rights that it needs; each may be said more than once
  --admin ROLE
`;

type Command = (session: Session, roles: ParsedRoles) => Promise<string>;

const COMMANDS: Record<string, Command> = {
  migrate: async (session, roles) => {
    const applied = await migrate(session, roles);
    const granted = [...roles].map(([role, names]) => `${role}: ${names.join(", ")}`);
    const lines = [
      ...(applied.length > 0 ? [`applied ${applied.join(", ")}`] : []),
      ...(granted.length > 0 ? [`granted to ${granted.join("; ")}`] : []),
    ];
    return `${lines.join("\n") || "nothing to do: the schema is up to date"}\n`;
  },
  plan: async (session, roles) =>
    (await plan(session, roles)) || "-- nothing to do: the schema is up to date\n",
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
    process.stdout.write(await asked.command(database.open("front"), asked.roles));
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
): { command: Command; url: string; schema: string; roles: ParsedRoles } | string | undefined {
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
  for (const [role, names] of parsed.roles)
    for (const name of names)
      if (!isRoleName(name)) return `--${role}: expected ${ROLE_NAME}, found ${describe(name)}`;
  return { command, url, schema, roles: parsed.roles };
}

const OPTIONS = {
  url: { type: "string" },
  schema: { type: "string" },
  producer: { type: "string" },
  worker: { type: "string" },
  admin: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const;

type Option = keyof typeof OPTIONS;
type Values = Partial<Record<Exclude<Option, RoleOf>, string>>;
interface Read {
  values: Values;
  roles: Map<RoleOf, string[]>;
  positionals: string[];
}

/** Not strict: Node's own messages take three lines, and know of no "did you mean". */
function readOptions(args: readonly string[]): Read | string {
  const { tokens, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    strict: false,
    tokens: true,
    options: OPTIONS,
  });
  const values: Values = {};
  const roles: Read["roles"] = new Map();
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
    if (isRole(name)) roles.set(name, [...(roles.get(name) ?? []), value ?? ""]);
    else values[name] = value ?? "";
  }
  return { values, roles, positionals };
}

const isOption = (name: string): name is Option => Object.hasOwn(OPTIONS, name);
const isRole = (name: Option): name is RoleOf => (ROLES as readonly string[]).includes(name);

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
