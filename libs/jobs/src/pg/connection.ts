import type pg from "pg";

/** The settings of a `pg` pool. */
export interface PoolLike {
  options: pg.ClientConfig;
}

/** The settings of a TypeORM DataSource. */
export interface DataSourceLike {
  options: unknown;
}

interface TypeOrmPostgres {
  type?: string;
  url?: string;
  host?: string;
  port?: number;
  username?: string;
  password?: string | (() => string) | (() => Promise<string>);
  database?: string;
  ssl?: pg.ClientConfig["ssl"];
  connectTimeoutMS?: number;
  extra?: Record<string, unknown>;
}

/** From a connection string. */
export const fromUrl = (url: string): pg.ClientConfig => ({ connectionString: url });

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
  "types",
]);

/** Only the settings are read: our connections are our own. */
export function fromPool(pool: PoolLike): pg.ClientConfig {
  // pg defines the password as a property that is not enumerable, so that it is not logged.
  const config = clientOptions(pool.options as unknown as Record<string, unknown>);
  return { ...config, password: pool.options.password, ssl: pool.options.ssl };
}

/** Only the settings are read; `undefined` when the DataSource is not one for PostgreSQL. */
export function fromDataSource(dataSource: DataSourceLike): pg.ClientConfig | undefined {
  const options = dataSource.options as TypeOrmPostgres;
  if (options.type !== "postgres") return undefined;
  return {
    ...clientOptions(options.extra ?? {}),
    ...(options.url ? { connectionString: options.url } : {}),
    ...defined({
      host: options.host,
      port: options.port,
      user: options.username,
      password: options.password,
      database: options.database,
      ssl: options.ssl,
      connectionTimeoutMillis: options.connectTimeoutMS,
    }),
  };
}

const clientOptions = (options: Record<string, unknown>): pg.ClientConfig =>
  Object.fromEntries(Object.entries(options).filter(([name]) => !OF_THE_POOL.has(name)));

const defined = (options: Record<string, unknown>): pg.ClientConfig =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
