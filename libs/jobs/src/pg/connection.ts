import type pg from "pg";

/** The settings of a `pg` pool. */
export interface PoolLike {
  options: pg.ClientConfig;
}

/** The settings of a TypeORM DataSource. */
export interface DataSourceLike {
  options: unknown;
}

interface TypeOrmServer {
  url?: string;
  host?: string;
  port?: number;
  username?: string;
  password?: string | (() => string) | (() => Promise<string>);
  database?: string;
  ssl?: pg.ClientConfig["ssl"];
}

interface TypeOrmPostgres extends TypeOrmServer {
  type?: string;
  replication?: { master: TypeOrmServer };
  connectTimeoutMS?: number;
  extra?: Record<string, unknown>;
}

/** From a connection string. */
export const fromUrl = (url: string): pg.ClientConfig => ours({ connectionString: url });

/** What is said in a connection string wins over everything beside it: our own settings would be lost. */
const OURS = [
  "application_name",
  "statement_timeout",
  "lock_timeout",
  "query_timeout",
  "idle_in_transaction_session_timeout",
  "binary",
];

/** Takes out of the connection string what we set ourselves, and server options to where they are added to ours. */
function ours(config: pg.ClientConfig): pg.ClientConfig {
  const [base, query] = splitOnce(config.connectionString ?? "", "?");
  if (query === undefined) return config;
  const said = new URLSearchParams(query);
  const options = said.get("options");
  for (const name of [...OURS, "options"]) said.delete(name);
  const rest = said.toString();
  return {
    ...config,
    connectionString: rest === "" ? base : `${base}?${rest}`,
    ...(options === null ? {} : { options }),
  };
}

function splitOnce(text: string, by: string): [string, string | undefined] {
  const at = text.indexOf(by);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

const OF_THE_POOL = new Set([
  "max",
  "min",
  "idleTimeoutMillis",
  "allowExitOnIdle",
  "maxUses",
  "maxLifetimeSeconds",
  "Promise",
  "Client",
  "log",
  "verify",
  "onConnect",
  "application_name",
  "statement_timeout",
  "query_timeout",
  "lock_timeout",
  "idle_in_transaction_session_timeout",
  "pipeline",
  "binary",
  "types",
]);

/** Only the settings are read: our connections are our own. */
export function fromPool(pool: PoolLike): pg.ClientConfig {
  // pg defines the password as a property that is not enumerable, so that it is not logged.
  const config = clientOptions(pool.options as unknown as Record<string, unknown>);
  return ours({ ...config, password: pool.options.password, ssl: pool.options.ssl });
}

/** Only the settings are read; `undefined` when the DataSource is not one for PostgreSQL. */
export function fromDataSource(dataSource: DataSourceLike): pg.ClientConfig | undefined {
  const options = dataSource.options as TypeOrmPostgres;
  if (options.type !== "postgres") return undefined;
  // With replicas, what TypeORM connects to for writing stands there, and nothing beside it.
  const server = options.replication?.master ?? options;
  return ours({
    ...clientOptions(options.extra ?? {}),
    ...(server.url ? { connectionString: server.url } : {}),
    ...defined({
      host: server.host,
      port: server.port,
      user: server.username,
      password: server.password,
      database: server.database,
      ssl: server.ssl ?? options.ssl,
      connectionTimeoutMillis: options.connectTimeoutMS,
    }),
  });
}

const CONNECT_TIMEOUT = 5_000;

/** The same server, under a name of its own. */
export const named = (config: pg.ClientConfig, name: string): pg.ClientConfig => ({
  ...config,
  application_name: name,
  connectionTimeoutMillis: config.connectionTimeoutMillis || CONNECT_TIMEOUT,
  keepAlive: true,
});

const clientOptions = (options: Record<string, unknown>): pg.ClientConfig =>
  Object.fromEntries(Object.entries(options).filter(([name]) => !OF_THE_POOL.has(name)));

const defined = (options: Record<string, unknown>): pg.ClientConfig =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
