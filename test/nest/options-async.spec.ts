import { Injectable, Module } from "@nestjs/common";
import { JobQueue, type JobsOptions, JobsModule, OptionsError } from "nestjs-pg-jobs";
import pg from "pg";
import { DataSource } from "typeorm";
import { Bench, feature } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";

@Injectable()
class Settings {
  url = "";
  schema = "";

  createJobsOptions(): JobsOptions {
    return { connection: { url: this.url }, schema: this.schema };
  }
}

describe("where the options come from", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  /** The settings of this bench, exported by a module. */
  function settingsModule() {
    const settings = Object.assign(new Settings(), { url: bench.url, schema: bench.schema });
    @Module({ providers: [{ provide: Settings, useValue: settings }], exports: [Settings] })
    class SettingsModule {}
    return SettingsModule;
  }

  /** A job of this app goes through, by its own worker. */
  async function works(root: Parameters<Bench["app"]>[0][number]) {
    const app = await bench.app([
      root,
      JobsModule.forWorker({ imports: [feature([handler("ask", () => "answer")])] }),
    ]);
    const { id } = await app.get(JobQueue).enqueue("ask");
    const { result } = await reached(bench, id, "succeeded");
    await app.close();
    return result;
  }

  it("useFactory with what it injects, also a promise", async () => {
    const root = JobsModule.forRootAsync({
      imports: [settingsModule()],
      inject: [Settings],
      useFactory: async (settings: Settings) => settings.createJobsOptions(),
    });
    expect(await works(root)).toBe("answer");
  });

  it("useExisting", async () => {
    const root = JobsModule.forRootAsync({ imports: [settingsModule()], useExisting: Settings });
    expect(await works(root)).toBe("answer");
  });

  it("useClass", async () => {
    const { url, schema } = bench;
    @Injectable()
    class Own extends Settings {
      override url = url;
      override schema = schema;
    }
    expect(await works(JobsModule.forRootAsync({ useClass: Own }))).toBe("answer");
  });

  it("the connection of a pg pool or a DataSource: only read, neither used nor closed", async () => {
    const pool = new pg.Pool({ connectionString: bench.url });
    const dataSource = new DataSource({ type: "postgres", url: bench.url });
    for (const connection of [{ pool }, { dataSource }])
      expect(await works(JobsModule.forRoot({ connection, schema: bench.schema }))).toBe("answer");
    expect(pool.totalCount).toBe(0);
    expect(pool.ended).toBe(false);
    expect(dataSource.isInitialized).toBe(false);
    await pool.end();
  });

  it("what an asynchronous factory gives is checked as well", async () => {
    const useFactory = async () => ({ connection: { url: bench.url }, notfy: false }) as never;
    await expect(bench.app([JobsModule.forRootAsync({ useFactory })])).rejects.toThrow(
      expect.objectContaining({
        constructor: OptionsError,
        problems: ["notfy: unknown option, did you mean notify?"],
      }),
    );
  });

  it("a factory that fails fails the boot with its own error", async () => {
    const useFactory = () => Promise.reject(new Error("the vault is closed"));
    await expect(bench.app([JobsModule.forRootAsync({ useFactory })])).rejects.toThrow(
      "the vault is closed",
    );
  });

  it("no more connections than were allowed: too few for a worker fail the boot", async () => {
    const boot = (connections: number, notify: boolean) =>
      bench.worker([handler("any", () => {})], {}, { connections, notify });
    await expect(boot(4, true)).rejects.toThrow(/connections: .*at least 5/);
    await expect(boot(3, false)).rejects.toThrow(/connections: .*at least 4/);
    const app = await boot(4, false);
    await app.close();
    // A producer needs one.
    await (await bench.producer({ connections: 1 })).enqueue("one");
  });
});
