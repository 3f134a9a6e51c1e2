import type { ModuleMetadata } from "@nestjs/common";
import type { JobDefaults, ParsedDefaults } from "./job/defaults.js";
import { DEFAULTS_KEYS, parseDefaults } from "./job/defaults.js";
import { type Duration, MAX_DURATION_MS } from "./job/duration.js";
import { MAX_CONCURRENCY } from "./job/handler-options.js";
import { LIMIT_KEYS, type LimitRule, type Limits, parseLimits } from "./job/limit.js";
import { OptionsCheck } from "./job/options-check.js";
import { postgresUrlProblem } from "./job/postgres-url.js";
import { type ParsedRoles, type Roles, parseRoles } from "./job/roles.js";
import { SCHEMA_NAME, isSchemaName } from "./job/schema-name.js";

export type { EnqueueOptions, ParsedEnqueueOptions } from "./job/enqueue-options.js";
export { parseEnqueueOptions } from "./job/enqueue-options.js";
export type { BatchOptions, HandlerOptions, ParsedHandlerOptions } from "./job/handler-options.js";
export { parseHandlerOptions } from "./job/handler-options.js";

/** A TypeORM DataSource for PostgreSQL; only its settings are read. */
export interface DataSourceLike {
  readonly options: object;
}

/** A `pg.Pool`; only its settings are read. */
export interface PoolLike {
  readonly options: object;
}

/** Where the database is; we open and close our own connections in every case. */
export type ConnectionOptions =
  | {
      /** `postgres://user:password@host:port/database`. */
      url: string;
      /** A direct URL for LISTEN when `url` leads to a transaction pooler; default `url`, or polling behind one. */
      listenUrl?: string;
    }
  | { dataSource: DataSourceLike }
  | { pool: PoolLike };

/** The options of `JobsModule.forRoot`. */
export interface JobsOptions {
  /** Where the database is. */
  connection: ConnectionOptions;
  /**
   * The most connections this app opens; 1..100, default 10. A producer opens 1 (2 while it waits for results), each
   * worker 4 more (3 without `notify`); one more reads counters and health for whoever asks, and sees to limits, if two are left; what is
   * left then serves `job.transaction(fn)`: one each while it runs, opened on first use.
   */
  connections?: number;
  /** The database schema of our tables; lower case, default `'jobs'`. */
  schema?: string;
  /** Whether starting may migrate the schema; default `'never'`. */
  migrate?: "never" | "on-start";
  /** Who gets the rights that producers, workers and admins need, with `migrate: 'on-start'`; default nobody. */
  roles?: Roles;
  /** What holds for jobs whose definition and handler do not say otherwise. */
  defaults?: JobDefaults;
  /** Whether to send and hear hints by NOTIFY; without, jobs start by polling; default true. */
  notify?: boolean;
  /** The longest payload, in bytes of UTF-8; default 1 MiB. */
  payloadLimit?: number;
  /** The longest result that is stored, in bytes of UTF-8; the job of a longer one succeeds without; default 1 MiB. */
  resultLimit?: number;
  /**
   * How long finished jobs are kept at least, with their errors and history; they go by whole days. 1 h..10 years,
   * default 7 days. Workers that say different things: the longest of the last 24 hours holds.
   */
  keepFinished?: Duration;
}

/** How much of what happens to jobs is written down. */
export type HistoryMode = (typeof HISTORY_MODES)[number];
const HISTORY_MODES = ["full", "exceptions", "none"] as const;

/** The options of one queue of a worker. */
export interface QueueOptions extends Limits {
  /** How many of its jobs run at once in this process; 1..10,000, default 10. */
  concurrency?: number;
  /** How many more are claimed ahead; 0..500, default `concurrency`. */
  prefetch?: number;
  /**
   * What is written of each job: `'exceptions'` (default) what its tables do not tell, `'full'` everything,
   * `'none'` nothing. Kept with the queue: the worker that started last decides.
   */
  history?: HistoryMode;
  /** Whether jobs that succeeded or were skipped are kept for `keepFinished`, or deleted at once; default true. */
  keep?: boolean;
  /** The age at which a dead letter is archived; 1 s..10 years, default never. The worker that started last decides. */
  archiveDead?: Duration;
  /** The age at which a dead letter, archived or not, is deleted; 1 s..10 years, default never. */
  pruneDead?: Duration;
}

/** The options of `JobsModule.forWorker`. */
export interface WorkerOptions {
  /** The modules whose providers have the handlers. */
  imports: NonNullable<ModuleMetadata["imports"]>;
  /** The queues to serve; absent: those of the handlers, with default options. */
  queues?: Record<string, QueueOptions>;
  /**
   * The name of this service, 1..64 characters: a schedule whose `@ScheduledJob` is gone is retired by the service that
   * declared it, a subscriber likewise, and one without a name is called by it. Default: its package and the file that it is started by.
   */
  service?: string;
  /** How long a silent process keeps its jobs; 1 s..1 d, default 30 s. */
  lease?: Duration;
  /** How often to look for jobs without a hint; 100 ms..60 s, default 2 s. */
  poll?: Duration;
  /** How long running jobs may go on at shutdown; 0..1 d, default 20 s. */
  grace?: Duration;
  /**
   * Whether guards and interceptors of the whole app (`APP_GUARD`, `useGlobalInterceptors()` …) run around handlers
   * too; `isJobContext(context)` tells them apart. Global pipes and filters never do. Default false.
   */
  globalEnhancers?: boolean;
}

/** {@link ConnectionOptions} after checking: exactly one of the three, told by `from`. */
export type ParsedConnection =
  | { readonly from: "url"; readonly url: string; readonly listenUrl: string | null }
  | { readonly from: "dataSource"; readonly dataSource: DataSourceLike }
  | { readonly from: "pool"; readonly pool: PoolLike };

/** {@link JobsOptions} after checking, defaults filled in. */
export interface ParsedJobsOptions {
  readonly connection: ParsedConnection;
  readonly connections: number;
  readonly schema: string;
  readonly migrate: "never" | "on-start";
  readonly roles: ParsedRoles;
  /** Null where nothing was said. */
  readonly defaults: ParsedDefaults;
  readonly notify: boolean;
  /** In bytes. */
  readonly payloadLimit: number;
  /** In bytes. */
  readonly resultLimit: number;
  readonly keepFinishedMs: number;
}

/** {@link QueueOptions} after checking, defaults filled in. */
export interface ParsedQueueOptions {
  readonly concurrency: number;
  readonly prefetch: number;
  readonly history: HistoryMode;
  readonly keep: boolean;
  /** Null: never. */
  readonly archiveDeadMs: number | null;
  readonly pruneDeadMs: number | null;
  /** What bounds it over all processes; null: nothing was said. */
  readonly limits: readonly LimitRule[] | null;
}

/** {@link WorkerOptions} after checking, defaults filled in. */
export interface ParsedWorkerOptions {
  readonly imports: NonNullable<ModuleMetadata["imports"]>;
  /** By name; null: those of the handlers. */
  readonly queues: ReadonlyMap<string, ParsedQueueOptions> | null;
  /** Null: nothing was said. */
  readonly service: string | null;
  readonly leaseMs: number;
  readonly pollMs: number;
  readonly graceMs: number;
  readonly globalEnhancers: boolean;
}

/** The options of a queue nothing was said about. */
export const DEFAULT_QUEUE: ParsedQueueOptions = Object.freeze({
  concurrency: 10,
  prefetch: 10,
  history: "exceptions",
  keep: true,
  archiveDeadMs: null,
  pruneDeadMs: null,
  limits: null,
});

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const MAX_PREFETCH = 500;
const MAX_JSON = 256 * 1024 * 1024; // what one jsonb value can hold

const JOBS_KEYS =
  "connection connections schema migrate roles defaults notify payloadLimit resultLimit keepFinished".split(
    " ",
  );
const SOURCES = ["useFactory", "useClass", "useExisting"];
const ASYNC_KEYS = ["imports", "inject", "provideInjectionTokensFrom", ...SOURCES];
const WORKER_KEYS = "imports queues service lease poll grace globalEnhancers".split(" ");
const QUEUE_KEYS = [
  ..."concurrency prefetch history keep archiveDead pruneDead".split(" "),
  ...LIMIT_KEYS,
];

/** Checks the options of `JobsModule.forRoot`. @throws OptionsError with all problems. */
export function parseJobsOptions(options: JobsOptions): ParsedJobsOptions {
  const check = new OptionsCheck("options of JobsModule.forRoot");
  const given = check.object("", options, JOBS_KEYS) ? options : ({} as Record<string, unknown>);
  const said = check.absentOr("defaults", given.defaults, DEFAULTS_KEYS);
  const schema = given.schema ?? "jobs";
  if (!isSchemaName(schema)) check.expected("schema", SCHEMA_NAME, schema);
  if (given.roles !== undefined && given.migrate !== "on-start")
    check.add(
      "roles: expected together with migrate: 'on-start' only; pg-jobs migrate takes them too",
    );
  const parsed = {
    connection: parseConnection(check, given.connection),
    connections: check.integer("connections", given.connections, 1, 100) ?? 10,
    schema: schema as string,
    migrate: check.word("migrate", given.migrate, ["never", "on-start"]) ?? ("never" as const),
    roles: parseRoles(check, given.roles),
    defaults: parseDefaults(check, said, "defaults."),
    notify: check.flag("notify", given.notify) ?? true,
    payloadLimit: check.integer("payloadLimit", given.payloadLimit, 2, MAX_JSON) ?? 1_048_576,
    resultLimit: check.integer("resultLimit", given.resultLimit, 2, MAX_JSON) ?? 1_048_576,
    keepFinishedMs:
      check.duration("keepFinished", given.keepFinished, HOUR_MS, MAX_DURATION_MS) ?? 7 * DAY_MS,
  };
  check.done();
  return Object.freeze(parsed as typeof parsed & { connection: ParsedConnection });
}

/** Checks where `JobsModule.forRootAsync` is to take its options from. @throws OptionsError with all problems. */
export function checkAsyncOptions(options: unknown): void {
  const check = new OptionsCheck("options of JobsModule.forRootAsync");
  if (check.object("", options, ASYNC_KEYS)) {
    const found = SOURCES.filter((key) => options[key] !== undefined);
    if (found.length !== 1) {
      const list = found.join(" and ") || "none";
      check.add(`options: expected exactly one of ${SOURCES.join(", ")}, found ${list}`);
    }
    for (const key of found)
      if (typeof options[key] !== "function" && key !== "useExisting")
        check.expected(key, key === "useClass" ? "a class" : "a function", options[key]);
    for (const key of ["imports", "inject"])
      if (options[key] !== undefined && !Array.isArray(options[key]))
        check.expected(key, "a list", options[key]);
  }
  check.done();
}

/** Checks the options of `JobsModule.forWorker`. @throws OptionsError with all problems. */
export function parseWorkerOptions(options: WorkerOptions): ParsedWorkerOptions {
  const check = new OptionsCheck("options of JobsModule.forWorker");
  const given = check.object("", options, WORKER_KEYS) ? options : ({} as Record<string, unknown>);
  const parsed = {
    imports: parseImports(check, given.imports),
    queues: parseQueues(check, given.queues),
    service: check.name("service", given.service) ?? null,
    leaseMs: check.duration("lease", given.lease, 1_000, DAY_MS) ?? 30_000,
    pollMs: check.duration("poll", given.poll, 100, 60_000) ?? 2_000,
    graceMs: check.duration("grace", given.grace, 0, DAY_MS) ?? 20_000,
    globalEnhancers: check.flag("globalEnhancers", given.globalEnhancers) ?? false,
  };
  check.done();
  return Object.freeze(parsed);
}

function parseConnection(check: OptionsCheck, value: unknown): ParsedConnection | undefined {
  const at = "connection";
  if (!check.object(at, value, ["url", "listenUrl", "dataSource", "pool"])) return undefined;
  const found = ["url", "dataSource", "pool"].filter((key) => value[key] !== undefined);
  if (found.length !== 1) {
    const list = found.join(" and ") || "none (is the environment variable set?)";
    check.add(`${at}: expected exactly one of url, dataSource, pool, found ${list}`);
    return undefined;
  }
  const listenUrl = value.listenUrl ?? null;
  if (listenUrl !== null && value.url === undefined) {
    check.add(`${at}.listenUrl: expected together with url only, found with ${found[0]}`);
  }
  if (listenUrl !== null) checkUrl(check, `${at}.listenUrl`, listenUrl);
  if (value.dataSource !== undefined) {
    checkDataSource(check, `${at}.dataSource`, value.dataSource);
    return Object.freeze({ from: "dataSource", dataSource: value.dataSource as DataSourceLike });
  }
  if (value.pool !== undefined) {
    checkPool(check, `${at}.pool`, value.pool);
    return Object.freeze({ from: "pool", pool: value.pool as PoolLike });
  }
  checkUrl(check, `${at}.url`, value.url);
  return Object.freeze({
    from: "url",
    url: value.url as string,
    listenUrl: listenUrl as string | null,
  });
}

// the URL itself never goes into a message: it holds the password
function checkUrl(check: OptionsCheck, at: string, value: unknown): void {
  if (typeof value !== "string") {
    check.add(
      `${at}: expected a URL that begins with postgres:// and has no spaces, found ${typeof value}`,
    );
    return;
  }
  const problem = postgresUrlProblem(value);
  if (problem !== undefined) check.add(`${at}: ${problem}`);
}

/** What stands in the settings of a pool or DataSource; pg takes other forms than URLs too. */
function checkUrlWithin(check: OptionsCheck, at: string, value: unknown): void {
  if (typeof value === "string" && /^postgres(ql)?:/.test(value)) checkUrl(check, at, value);
}

function checkDataSource(check: OptionsCheck, at: string, value: unknown): void {
  if (!hasOptions(value)) {
    check.add(`${at}: expected a TypeORM DataSource, found another value`);
    return;
  }
  const { type, url, replication } = value.options as {
    type?: unknown;
    url?: unknown;
    replication?: { master?: { url?: unknown } };
  };
  if (type !== "postgres") check.expected(at, "a DataSource of type 'postgres'", type);
  const written = replication?.master ? "replication.master.url" : "url";
  checkUrlWithin(check, `${at}.options.${written}`, (replication?.master ?? { url }).url);
}

function checkPool(check: OptionsCheck, at: string, value: unknown): void {
  if (!hasOptions(value)) {
    check.add(`${at}: expected a pg.Pool, found another value`);
    return;
  }
  const { connectionString } = value.options as { connectionString?: unknown };
  checkUrlWithin(check, `${at}.options.connectionString`, connectionString);
}

function hasOptions(value: unknown): value is { options: object } {
  const options = (value as { options?: unknown } | null)?.options;
  return typeof options === "object" && options !== null;
}

function parseImports(check: OptionsCheck, value: unknown): ParsedWorkerOptions["imports"] {
  if (!Array.isArray(value)) {
    check.expected("imports", "a list of the modules that have the handlers", value);
    return [];
  }
  value.forEach((module, i) => {
    if (!module)
      check.add(`imports[${i}]: expected a module, found ${module} (a circular import?)`);
  });
  return value as ParsedWorkerOptions["imports"];
}

function parseQueues(check: OptionsCheck, value: unknown): ParsedWorkerOptions["queues"] {
  if (value === undefined) return null;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    check.expected("queues", "an object such as { mail: {} }: names and their options", value);
    return null;
  }
  const queues = new Map<string, ParsedQueueOptions>();
  for (const [name, options] of Object.entries(value)) {
    check.name("queues", name);
    const at = `queues.${name.slice(0, 64)}`;
    const given = check.absentOr(at, options, QUEUE_KEYS);
    const concurrency =
      check.integer(`${at}.concurrency`, given.concurrency, 1, MAX_CONCURRENCY) ??
      DEFAULT_QUEUE.concurrency;
    const prefetch =
      check.integer(`${at}.prefetch`, given.prefetch, 0, MAX_PREFETCH) ??
      Math.min(concurrency, MAX_PREFETCH);
    const age = (key: "archiveDead" | "pruneDead") =>
      check.duration(`${at}.${key}`, given[key], 1_000, MAX_DURATION_MS) ?? null;
    const [archiveDeadMs, pruneDeadMs] = [age("archiveDead"), age("pruneDead")];
    if (archiveDeadMs !== null && pruneDeadMs !== null && archiveDeadMs >= pruneDeadMs)
      check.add(`${at}.pruneDead: expected more than archiveDead, found less or the same`);
    const history =
      check.word(`${at}.history`, given.history, HISTORY_MODES) ?? DEFAULT_QUEUE.history;
    const keep = check.flag(`${at}.keep`, given.keep) ?? DEFAULT_QUEUE.keep;
    queues.set(
      name,
      Object.freeze({
        concurrency,
        prefetch,
        history,
        keep,
        archiveDeadMs,
        pruneDeadMs,
        limits: parseLimits(check, given, `${at}.`),
      }),
    );
  }
  if (queues.size === 0) check.add("queues: expected at least one, found none; or leave it out");
  return queues;
}
