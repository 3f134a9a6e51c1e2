import { randomBytes } from "node:crypto";
import {
  type DynamicModule,
  type INestApplicationContext,
  Module,
  type Provider,
  type Type,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { type JobsOptions, JobQueue, JobsModule, type WorkerOptions } from "nestjs-pg-jobs";
import pg from "pg";
import { Database, type Purpose } from "../../libs/jobs/src/pg/database.js";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import { migrate } from "../../libs/jobs/src/store/migrations/migrate.js";
import { TcpProxy } from "./tcp-proxy.js";

/** The database of this Jest worker. */
export const databaseUrl = (): string => {
  const url = process.env.DATABASE_URL;
  if (!url) throw new Error("DATABASE_URL is not set: run the specs with npm test");
  return url;
};

/** Whether what is tested goes through a transaction pooler (TEST_POOLER=1). */
export const behindPooler = process.env.POOLER_URL !== undefined;

/** Another database of the same server: itself, and where what is tested connects to. */
export function otherDatabase(name: string): { direct: string; url: string } {
  const [direct, url] = [databaseUrl(), process.env.POOLER_URL ?? databaseUrl()].map((base) => {
    const address = new URL(base);
    address.pathname = `/${name}`;
    return address.href;
  });
  return { direct: direct!, url: url! };
}

/** A schema of its own for a spec, with people's access to it. */
export class Bench {
  readonly schema = `t_${randomBytes(6).toString("hex")}`;
  readonly #pool: pg.Pool;
  readonly #apps: INestApplicationContext[] = [];
  readonly #clients = new Set<pg.PoolClient>();
  readonly #proxies: TcpProxy[] = [];
  readonly #database: Database;

  private constructor(
    /** Where what is tested connects to. */
    readonly url: string,
    /** The database itself; differs from `url` behind a pooler only. */
    readonly direct: string,
  ) {
    this.#pool = new pg.Pool({ connectionString: direct, max: 4 });
    this.#database = new Database({ connectionString: url }, this.schema, 40);
    // A spec may restart its server: an idle connection that is gone is replaced by the next query.
    this.#pool.on("error", () => {});
  }

  /**
   * A migrated schema, in the database of this Jest worker unless `url` names another; `close()` drops it. With `direct`
   * beside it `url` may lead through a pooler.
   */
  static async open(
    options: { migrated?: boolean; url?: string; direct?: string } = {},
  ): Promise<Bench> {
    const direct = options.direct ?? options.url ?? databaseUrl();
    const bench = new Bench(options.url ?? process.env.POOLER_URL ?? direct, direct);
    if (options.migrated !== false) await bench.migrate();
    return bench;
  }

  async migrate(): Promise<number[]> {
    const database = new Database({ connectionString: this.url }, this.schema, 1);
    try {
      return await migrate(database.open("front"));
    } finally {
      await database.close();
    }
  }

  /** SQL as a person with psql would send it; `jobs.` in the text is the schema of this bench. */
  async sql<T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> {
    const result = await this.#pool.query<T>(
      text.replaceAll(/\bjobs\./g, `${this.schema}.`),
      values,
    );
    return result.rows;
  }

  /** One of our own sessions, for statements below the public door; closed with the bench. */
  session(purpose: Purpose = "front"): Session {
    return this.#database.open(purpose);
  }

  /** A line to the database that can be broken; closed with the bench. */
  async line(): Promise<{ proxy: TcpProxy; url: string }> {
    const proxy = await TcpProxy.start(this.url);
    this.#proxies.push(proxy);
    return { proxy, url: proxy.url(this.url) };
  }

  /** A client of its own, for transactions; release it. One that a failed test kept ends with the bench. */
  async client(): Promise<pg.PoolClient> {
    const client = await this.#pool.connect();
    this.#clients.add(client);
    return client;
  }

  /** The state of a job, by the view. */
  async state(id: string): Promise<string | undefined> {
    const [row] = await this.sql<{ state: string }>(
      "select state from jobs.job_status where id = $1",
      [id],
    );
    return row?.state;
  }

  /** How many jobs are in each state, by the view. */
  async states(): Promise<Record<string, number>> {
    const rows = await this.sql<{ state: string; n: number }>(
      "select state, count(*)::int as n from jobs.job_status group by 1",
    );
    return Object.fromEntries(rows.map(({ state, n }) => [state, n]));
  }

  /** Moves a job's rows, not the clock: to the job it is so much later. */
  async age(id: string, by: string): Promise<void> {
    const [queueId, number] = id.split("-");
    await this.sql(
      `update jobs.job set run_at = run_at - $3::interval, created_at = created_at - $3::interval,
         lease_until = lease_until - $3::interval, claimed_at = claimed_at - $3::interval
       where queue_id = $1 and id = $2`,
      [queueId, number, by],
    );
    await this.sql(
      `update jobs.dead set created_at = created_at - $3::interval, run_at = run_at - $3::interval, finished_at = finished_at - $3::interval where queue_id = $1 and id = $2`,
      [queueId, number, by],
    );
  }

  /**
   * Drops the schema under whoever uses it. All of its tables are locked at once, or none: a drop takes them one
   * after another, and with a statement that has some of them already it would be a deadlock.
   */
  async drop(): Promise<void> {
    const client = await this.client();
    try {
      const { rows } = await client.query<{ tables: string }>(
        `select string_agg(oid::regclass::text, ', ') as tables from pg_class
         where relnamespace = $1::regnamespace and relkind in ('r', 'p') and not relispartition`,
        [this.schema],
      );
      for (;;) {
        await client.query("begin");
        try {
          await client.query(`lock table ${rows[0]!.tables} in access exclusive mode nowait`);
          break;
        } catch (error) {
          await client.query("rollback");
          if ((error as { code?: string }).code !== "55P03") throw error;
        }
      }
      await client.query(`drop schema ${this.schema} cascade`);
      await client.query("commit");
    } finally {
      client.release();
    }
  }

  /** `connection` of `JobsModule.forRoot`. */
  get connection(): JobsOptions["connection"] {
    const { url, direct } = this;
    return url === direct ? { url } : { url, listenUrl: direct };
  }

  /** `JobsModule.forRoot` for this schema. */
  root(options: Partial<JobsOptions> = {}): DynamicModule {
    return JobsModule.forRoot({
      connection: this.connection,
      schema: this.schema,
      ...options,
    } as JobsOptions);
  }

  /** An app that only enqueues. */
  async producer(options: Partial<JobsOptions> = {}): Promise<JobQueue> {
    return (await this.app([this.root(options)])).get(JobQueue);
  }

  /** An app whose worker has these providers in one feature module. */
  async worker(
    providers: Provider[],
    worker: Partial<WorkerOptions> = {},
    options: Partial<JobsOptions> = {},
  ): Promise<INestApplicationContext> {
    return await this.app([
      this.root(options),
      JobsModule.forWorker({ imports: [feature(providers)], poll: "200ms", ...worker }),
    ]);
  }

  /** An app of these modules; closed with the bench. */
  async app(imports: (DynamicModule | Type<unknown>)[]): Promise<INestApplicationContext> {
    @Module({ imports })
    class App {}
    const app = await NestFactory.createApplicationContext(App, {
      logger: ["error", "fatal"],
      abortOnError: false,
    });
    this.#apps.push(app);
    return app;
  }

  /** Closes the apps so far: each of them holds connections. */
  async closeApps(): Promise<void> {
    await Promise.all(this.#apps.splice(0).map((app) => app.close()));
  }

  async close(): Promise<void> {
    await this.closeApps();
    await this.#database.close();
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    for (const client of this.#clients) release(client);
    await this.#pool.query(`drop schema if exists ${this.schema} cascade`);
    await this.#pool.end();
  }
}

function release(client: pg.PoolClient): void {
  try {
    client.release(true);
  } catch {
    // the test has released it
  }
}

/** A module of these providers. */
export function feature(
  providers: Provider[],
  imports: (DynamicModule | Type<unknown>)[] = [],
): Type<unknown> {
  @Module({ imports, providers, exports: providers })
  class Feature {}
  return Feature;
}
