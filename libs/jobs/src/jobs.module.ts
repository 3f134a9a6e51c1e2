import {
  ConfigurableModuleBuilder,
  type DynamicModule,
  Inject,
  Logger,
  Module,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
} from "@nestjs/common";
import { ModulesContainer } from "@nestjs/core";
import { OptionsError, atBoot } from "./job/errors.js";
import {
  type JobsOptions,
  type ParsedJobsOptions,
  type WorkerOptions,
  checkAsyncOptions,
  parseJobsOptions,
} from "./jobs.options.js";
import { JobsRoot } from "./jobs.root.js";
import { PARSED_OPTIONS } from "./jobs.tokens.js";
import { JobsWorkerModule } from "./jobs-worker.module.js";
import { Events } from "./observe/events.js";
import { logEvents } from "./observe/log.observer.js";
import { Vitals } from "./observe/vitals.js";
import {
  type DataSourceLike,
  type PoolLike,
  fromDataSource,
  fromPool,
  fromUrl,
} from "./pg/connection.js";
import { Database } from "./pg/database.js";
import { READ_ONLY_ADVICE, readOnlyWords } from "./pg/read-only.js";
import { callerError } from "./queue/failure.js";
import { ControlHints } from "./queue/control-hints.js";
import { Followers } from "./queue/followers.js";
import { Hints } from "./queue/hints.js";
import { JobInspector } from "./queue/job-inspector.js";
import { JobQueue } from "./queue/job-queue.js";
import { LocalWorkers } from "./queue/local-workers.js";
import { JobAudit } from "./queue/audit.js";
import { JobBulk } from "./queue/bulk.js";
import { Searches } from "./queue/searches.js";
import { JobRequests } from "./queue/requests.js";
import { OneJob } from "./queue/one-job.js";
import { Results } from "./queue/results.js";
import { migrate } from "./store/migrations/migrate.js";
import { Store, isOutcomeUnknown, isUnavailable } from "./store/store.js";
import { causeOf } from "./worker/outage.js";

const COPY = Symbol.for("nestjs-pg-jobs.copy");

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } =
  new ConfigurableModuleBuilder<JobsOptions>({ moduleName: "Jobs" })
    .setClassMethodName("forRoot")
    .setFactoryMethodName("createJobsOptions")
    .build();

/** At the end: for calls under way, and for a connection to say good-bye. */
const PATIENCE_MS = 5_000;
const FAREWELL_MS = 400;

const providers = [
  {
    provide: PARSED_OPTIONS,
    inject: [MODULE_OPTIONS_TOKEN],
    useFactory: (options: JobsOptions) => atBoot(() => parseJobsOptions(options)),
  },
  Events,
  LocalWorkers,
  {
    provide: Database,
    inject: [PARSED_OPTIONS],
    useFactory: (options: ParsedJobsOptions) => atBoot(() => openDatabase(options)),
  },
  { provide: Store, inject: [Database], useFactory: (database: Database) => new Store(database) },
  { provide: Hints, inject: [Store, PARSED_OPTIONS, LocalWorkers], useFactory: makeHints },
  {
    provide: Results,
    inject: [Store, Database, PARSED_OPTIONS, LocalWorkers],
    useFactory: (
      store: Store,
      database: Database,
      { notify }: ParsedJobsOptions,
      local: LocalWorkers,
    ) => new Results(store, database, notify, local),
  },
  {
    provide: OneJob,
    inject: [Store, Hints, Events, PARSED_OPTIONS, LocalWorkers, Results],
    useFactory: (
      store: Store,
      hints: Hints,
      events: Events,
      { payloadLimit, notify }: ParsedJobsOptions,
      workers: LocalWorkers,
      results: Results,
    ) => {
      const control = new ControlHints(store.session, store.schema, notify, workers);
      return new OneJob(store, hints, events, payloadLimit, control, results);
    },
  },
  {
    provide: JobQueue,
    inject: [Store, Hints, Events, PARSED_OPTIONS, OneJob, Results],
    useFactory: (
      store: Store,
      hints: Hints,
      events: Events,
      { payloadLimit }: ParsedJobsOptions,
      one: OneJob,
      results: Results,
    ) => new JobQueue(store, hints, events, payloadLimit, one, results),
  },
  { provide: JobAudit, inject: [Store], useFactory: (store: Store) => new JobAudit(store) },
  { provide: JobRequests, inject: [Store], useFactory: (store: Store) => new JobRequests(store) },
  {
    provide: JobBulk,
    inject: [Store, OneJob, Searches],
    useFactory: (store: Store, one: OneJob, searches: Searches) =>
      new JobBulk(store, one, searches),
  },
  { provide: Followers, inject: [Store], useFactory: (store: Store) => new Followers(store) },
  { provide: Searches, inject: [Store], useFactory: (store: Store) => new Searches(store) },
  {
    provide: JobInspector,
    inject: [Store, Followers, Searches],
    useFactory: (store: Store, followers: Followers, searches: Searches) =>
      new JobInspector(store, followers, searches),
  },
  {
    provide: Vitals,
    inject: [Database],
    useFactory: (database: Database) => new Vitals(database.schema, () => database.use),
  },
  {
    provide: JobsRoot,
    inject: [PARSED_OPTIONS, Database, Store, Events, Hints, LocalWorkers, Results, Vitals],
    useFactory: (...opened: ConstructorParameters<typeof JobsRoot>) => new JobsRoot(...opened),
  },
];

function openDatabase({ connection, schema, connections }: ParsedJobsOptions): Database {
  switch (connection.from) {
    case "url":
      return new Database(
        fromUrl(connection.url),
        schema,
        connections,
        connection.listenUrl === null ? undefined : fromUrl(connection.listenUrl),
      );
    case "pool":
      return new Database(fromPool(connection.pool as PoolLike), schema, connections);
    case "dataSource": {
      const config = fromDataSource(connection.dataSource as DataSourceLike);
      if (config) return new Database(config, schema, connections);
      throw new OptionsError("options of JobsModule.forRoot", [
        "connection.dataSource: expected a DataSource of type postgres",
      ]);
    }
  }
}

function makeHints(store: Store, options: ParsedJobsOptions, workers: LocalWorkers): Hints {
  const hints = new Hints(store.session, store.schema, options.notify, workers);
  store.onLaneMade = (queueId) => hints.changed(queueId);
  return hints;
}

/**
 * Background jobs. `forRoot` gives {@link JobQueue} and {@link JobInspector} to the whole app and runs no handler;
 * `forWorker` makes the app a worker: role by import.
 */
@Module({
  providers,
  exports: [JobQueue, JobInspector, JobBulk, JobAudit, JobRequests, Events, Vitals, JobsRoot],
})
export class JobsModule
  extends ConfigurableModuleClass
  implements OnModuleInit, OnModuleDestroy, OnApplicationShutdown
{
  readonly #logger = new Logger(JobsModule.name);
  #stopLogging: () => void = () => {};
  #closing = false;

  constructor(
    @Inject(PARSED_OPTIONS) private readonly options: ParsedJobsOptions,
    private readonly database: Database,
    private readonly store: Store,
    private readonly queue: JobQueue,
    private readonly followers: Followers,
    private readonly bulk: JobBulk,
    private readonly events: Events,
    private readonly local: LocalWorkers,
    private readonly modules: ModulesContainer,
  ) {
    super();
  }

  /** The queue for the whole app. Global, so that it is destroyed last: jobs may enqueue until they are drained. */
  static override forRoot(options: JobsOptions): DynamicModule {
    return { ...super.forRoot(options), global: true };
  }

  /** The same with options from a factory or class. @throws OptionsError */
  static override forRootAsync(
    options: Parameters<typeof ConfigurableModuleClass.forRootAsync>[0],
  ): DynamicModule {
    atBoot(() => checkAsyncOptions(options));
    return { ...super.forRootAsync(options), global: true };
  }

  /** Makes this app a worker for the handlers in `imports`, and in what they import. @throws OptionsError */
  static forWorker(options: WorkerOptions): DynamicModule {
    return JobsWorkerModule.for(options);
  }

  /** Nest calls it before the hooks of all modules that are not global: nothing is asked of the database before the check. */
  async onModuleInit(): Promise<void> {
    try {
      this.#refuseSeveral();
      await JobsWorkerModule.check(this.modules);
      this.#stopLogging = logEvents(this.events);
      this.#warnOfCopies();
      if (this.options.migrate === "on-start") await this.#migrate();
    } catch (error) {
      // Nest closes no module of an app that did not boot: an open connection would keep the process alive.
      await this.database.close(FAREWELL_MS);
      throw error;
    }
  }

  /** When the workers have drained, and before Nest waits for the last request: one that follows a job does not end by itself. */
  async onModuleDestroy(): Promise<void> {
    this.followers.close();
    await this.bulk.close();
  }

  /** After every other module: users' providers are gone, nobody can enqueue any more. */
  async onApplicationShutdown(): Promise<void> {
    this.#closing = true;
    // A worker has spent its time on draining: what is still under way belongs to bodies that hang.
    const patience = this.local.any ? FAREWELL_MS : PATIENCE_MS;
    await this.queue.close(patience);
    await this.database.close(FAREWELL_MS);
    this.#stopLogging();
  }

  /** Each would open as many connections as it may, and chance would say whose JobQueue is injected. */
  #refuseSeveral(): void {
    const all = [...this.modules.values()].filter(
      ({ instance }) => (instance as unknown) instanceof JobsModule,
    );
    if (all.length === 1) return;
    const error = new OptionsError("set-up of JobsModule", [
      `JobsModule.forRoot: expected one in an app, found ${all.length}; it is global: import it once, in the root module`,
    ]);
    // Nest says nothing of what fails in a hook.
    this.#logger.error(error.message);
    atBoot(() => {
      throw error;
    });
  }

  /** Decorators and tokens of one copy are strangers to the other. */
  #warnOfCopies(): void {
    const copies = globalThis as { [COPY]?: unknown };
    copies[COPY] ??= JobsModule;
    if (copies[COPY] === JobsModule) return;
    this.#logger.warn(
      'Two copies of nestjs-pg-jobs are loaded; "npm ls nestjs-pg-jobs" shows who brings them',
    );
  }

  /** A database that is away is waited for in the background; any other failure fails the boot. */
  async #migrate(): Promise<void> {
    const { session } = this.store;
    try {
      const applied = await migrate(session, this.options.roles);
      // The boot may still fail, of which Nest tells nobody: what is connected then stays so.
      await session.hangUp(FAREWELL_MS);
      if (applied.length > 0)
        this.#logger.log("Schema migrated", { schema: this.database.schema, applied });
    } catch (error) {
      if (this.#closing) return;
      if (!isUnavailable(error) && !isOutcomeUnknown(error))
        throw callerError(error, this.database.schema, "migrate");
      this.#logger.warn(
        readOnlyWords(error) === undefined
          ? "The database is away; the schema is migrated when it is back"
          : `The database takes no writes, the schema is migrated when it does: ${READ_ONLY_ADVICE}`,
        { cause: causeOf(error) },
      );
      setTimeout(
        () =>
          void (
            this.#closing || this.#migrate().catch((later: unknown) => this.#logger.error(later))
          ),
        1_000,
      ).unref();
    }
  }
}
