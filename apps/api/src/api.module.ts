import { Module, StandardSchemaValidationPipe } from "@nestjs/common";
import { APP_FILTER, APP_PIPE } from "@nestjs/core";
import { JobsModule } from "nestjs-pg-jobs";
import { SamplesModule } from "nestjs-pg-jobs-samples";
import { DataSource } from "typeorm";
import { config } from "./config.js";
import { EventsController } from "./events/events.controller.js";
import { FeedsController } from "./feeds/feeds.controller.js";
import { News } from "./feeds/news.js";
import { HealthModule } from "./health/health.module.js";
import { RecordsController } from "./records/records.controller.js";
import { RemindersController } from "./reminders/reminders.controller.js";
import { ThumbnailsController } from "./thumbnails/thumbnails.controller.js";
import { JobsErrorFilter } from "./jobs-error.filter.js";

/** A producer: it imports `JobsModule.forRoot` and no `forWorker`, so no job runs here. */
@Module({
  imports: [
    SamplesModule.forRoot({ url: config.databaseUrl }),
    JobsModule.forRootAsync({
      inject: [DataSource],
      useFactory: (dataSource: DataSource) => ({
        connection: { dataSource },
        schema: config.schema,
      }),
    }),
    HealthModule,
  ],
  controllers: [
    EventsController,
    FeedsController,
    RecordsController,
    RemindersController,
    ThumbnailsController,
  ],
  providers: [
    News,
    { provide: APP_PIPE, useClass: StandardSchemaValidationPipe },
    { provide: APP_FILTER, useClass: JobsErrorFilter },
  ],
})
export class ApiModule {}
