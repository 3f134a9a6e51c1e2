import {
  type DynamicModule,
  Global,
  type INestApplicationContext,
  Inject,
  Injectable,
  Module,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type Type,
} from "@nestjs/common";
import { type JobContext, JobHandler, JobQueue, JobsModule, defineJob } from "nestjs-pg-jobs";
import pg from "pg";
import { DataSource } from "typeorm";
import { Bench, behindPooler } from "../support/harness.js";
import { Gate, reached, row } from "../support/handlers.js";
import { until } from "../support/until.js";

type Imports = (DynamicModule | Type<unknown>)[];
interface UserDatabase {
  query(sql: string): Promise<unknown>;
}
const DATABASE = Symbol("database");

const Running = defineJob("running");
const Waiting = defineJob("waiting");
const Child = defineJob<string>("child");

/** Which hook closes the user's database. */
const CLOSERS = {
  "a pg pool closed in onModuleDestroy": (url: string) => {
    @Injectable()
    class Pool extends pg.Pool implements OnModuleDestroy {
      constructor() {
        super({ connectionString: url });
      }
      async onModuleDestroy(): Promise<void> {
        if (!this.ended) await this.end();
      }
    }
    return Pool;
  },
  "a DataSource closed in onApplicationShutdown": (url: string) => {
    @Injectable()
    class Source extends DataSource implements OnApplicationShutdown {
      constructor() {
        super({ type: "postgres", url });
      }
      async onModuleInit(): Promise<void> {
        await this.initialize();
      }
      async onApplicationShutdown(): Promise<void> {
        if (this.isInitialized) await this.destroy();
      }
    }
    return Source;
  },
};

/** Where the features, the worker and JobsModule stand in the app. */
const ARRANGEMENTS: Record<
  string,
  (
    jobs: DynamicModule,
    worker: (features: Imports) => DynamicModule,
    feature: Type<unknown>,
  ) => Imports
> = {
  "features only in forWorker": (jobs, worker, feature) => [jobs, worker([feature])],
  "features also at the root, before it": (jobs, worker, feature) => [
    jobs,
    feature,
    worker([feature]),
  ],
  "features also at the root, after it": (jobs, worker, feature) => [
    jobs,
    worker([feature]),
    feature,
  ],
  "worker module nested": (jobs, worker, feature) => [jobs, nest(nest(worker([feature])))],
  "worker module nested, features at the root": (jobs, worker, feature) => [
    jobs,
    feature,
    nest(worker([feature])),
  ],
  "features nested": (jobs, worker, feature) => [jobs, worker([nest(nest(feature))])],
  "JobsModule listed last": (jobs, worker, feature) => [feature, worker([feature]), jobs],
  "JobsModule nested": (jobs, worker, feature) => [worker([feature]), nest(nest(jobs))],
};

function nest(module: DynamicModule | Type<unknown>): Type<unknown> {
  @Module({ imports: [module] })
  class Nested {}
  return Nested;
}

const TABLE = Object.keys(ARRANGEMENTS).flatMap((arrangement) =>
  [true, false].flatMap((global) =>
    (Object.keys(CLOSERS) as (keyof typeof CLOSERS)[]).map((closer) => ({
      arrangement,
      global,
      closer,
    })),
  ),
);

describe("the worker is drained before anything that its handlers may need is gone", () => {
  let bench: Bench;
  let gate: Gate;
  let app: INestApplicationContext;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());
  // One row that fails is not to spoil the next.
  afterEach(async () => {
    gate.open();
    await app.close();
  });
  beforeEach(async () => {
    for (const table of ["job", "done"]) await bench.sql(`delete from jobs.${table}`);
  });

  it.each(TABLE)(
    "$arrangement; global: $global, $closer",
    async ({ arrangement, global, closer }) => {
      gate = new Gate();
      const { opened } = gate;
      const [{ since } = { since: "" }] = await bench.sql<{ since: string }>(
        "select clock_timestamp()::text as since",
      );
      const started = new Gate();
      const Database = CLOSERS[closer](bench.url);
      const databaseModule = module({
        providers: [Database, { provide: DATABASE, useExisting: Database }],
        exports: [DATABASE],
      });
      if (global) Global()(databaseModule);

      @Injectable()
      class Feature {
        constructor(
          @Inject(DATABASE) private readonly database: UserDatabase,
          private readonly jobs: JobQueue,
        ) {}

        @JobHandler(Running)
        async run(_payload: unknown, job: JobContext): Promise<string> {
          started.open();
          await opened;
          await this.database.query("select 1");
          await job.enqueue(Child, "by the job");
          await this.jobs.enqueue(Child, "by the queue");
          await this.database.query("select 1");
          return "done";
        }

        @JobHandler(Waiting)
        wait(): void {}
      }
      const featureModule = module({
        imports: global ? [] : [databaseModule],
        providers: [Feature],
      });

      const worker = (imports: Imports) =>
        JobsModule.forWorker({ imports, queues: { default: { concurrency: 1, prefetch: 2 } } });
      const imports = ARRANGEMENTS[arrangement]!(bench.root(), worker, featureModule);
      app = await bench.app(global ? [...imports, databaseModule] : imports);
      const jobs = app.get(JobQueue);

      const { id } = await jobs.enqueue(Running);
      await started.opened;
      const waiting = await jobs.enqueueMany(Waiting, [{}, {}]);
      await until(async () => (await row(bench, waiting[1]!.id)).attempt === 1, {
        what: "two to be claimed ahead",
      });

      const closing = app.close();
      // Handed back at once, while the other still runs; nothing spent.
      for (const one of waiting) {
        expect(await reached(bench, one.id, "queued")).toMatchObject({ attempt: 1, failures: 0 });
      }
      expect(await bench.state(id)).toBe("running");
      gate.open();
      await closing;

      expect(await row(bench, id)).toMatchObject({
        state: "succeeded",
        result: "done",
        failures: 0,
      });
      const children = await bench.sql(
        "select payload, state from jobs.job_status where kind = 'child' order by number",
      );
      expect(children).toEqual([
        { payload: "by the job", state: "queued" },
        { payload: "by the queue", state: "queued" },
      ]);
      // The connections that a pooler keeps are its own.
      if (behindPooler) return;
      const left = async () =>
        await bench.sql(
          "select application_name from pg_stat_activity where application_name like 'pg-jobs%' and datname = current_database() and backend_start > $1",
          [since],
        );
      // A server process ends a moment after its connection.
      await until(async () => (await left()).length === 0, { what: "no connection is left" });
    },
  );
});

function module(metadata: Parameters<typeof Module>[0]): Type<unknown> {
  @Module(metadata)
  class Made {}
  return Made;
}
