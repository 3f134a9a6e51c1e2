import { type DynamicModule, Logger, Module, type OnApplicationShutdown } from "@nestjs/common";
import { setTimeout as sleep } from "node:timers/promises";
import { DataSource } from "typeorm";
import { EnvironmentError } from "./environment.js";
import { ensureSamples } from "./ensure-samples.js";
import { CreateReminder1762000000000 } from "./migrations/1762000000000-create-reminder.js";
import { CreateRecord1763000000000 } from "./migrations/1763000000000-create-record.js";
import { CreateFeedItem1764000000000 } from "./migrations/1764000000000-create-feed-item.js";
import { AddRecordSort1765000000000 } from "./migrations/1765000000000-add-record-sort.js";
import { Reminder } from "./reminder.entity.js";
import { SavedRecord } from "./saved-record.entity.js";

/** How long a starting app waits for its database. */
const PATIENCE_MS = 30_000;
/** The server refuses us, and will next time: bad password, no such user, no such database. */
const HOPELESS = /^(28|3D)/;

/** The users' own tables: a TypeORM `DataSource` for the whole app, its migrations run before anybody uses it. */
@Module({})
export class SamplesModule implements OnApplicationShutdown {
  constructor(private readonly dataSource: DataSource) {}

  static forRoot(options: { url: string }): DynamicModule {
    return {
      module: SamplesModule,
      global: true,
      providers: [{ provide: DataSource, useFactory: async () => await open(options.url) }],
      exports: [DataSource],
    };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.dataSource.destroy();
  }
}

/** Not connected yet. It makes nothing outside the schema `samples`, TypeORM's own table included. */
export function samplesDataSource(url: string): DataSource {
  return new DataSource({
    type: "postgres",
    url,
    schema: "samples",
    entities: [Reminder, SavedRecord],
    migrations: [
      CreateReminder1762000000000,
      CreateRecord1763000000000,
      CreateFeedItem1764000000000,
      AddRecordSort1765000000000,
    ],
    migrationsTableName: "migration",
    installExtensions: false,
    applicationName: "samples",
    connectTimeoutMS: 5_000,
    extra: { max: 5 },
  });
}

async function open(url: string): Promise<DataSource> {
  const dataSource = samplesDataSource(url);
  const logger = new Logger(SamplesModule.name);
  const end = performance.now() + PATIENCE_MS;
  for (let turn = 0; !dataSource.isInitialized; turn++) {
    try {
      await dataSource.initialize();
    } catch (error) {
      const { code = "", message } = error as Error & { code?: string };
      const reason = message || code;
      if (HOPELESS.test(code) || performance.now() > end)
        throw new EnvironmentError([`DATABASE_URL: expected a database that answers: ${reason}`]);
      if (turn % 10 === 0) logger.warn("The database is away; tries again", { reason });
      await sleep(1_000);
    }
  }
  await ensureSamples(dataSource);
  return dataSource;
}
