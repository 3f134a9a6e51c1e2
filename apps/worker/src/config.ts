import { field, orExit, readEnvironment } from "nestjs-pg-jobs-samples";

const environment = orExit(() =>
  readEnvironment(
    {
      DATABASE_URL: field.databaseUrl(),
      JOBS_SCHEMA: field.schema(),
      HOST: field.host(),
      WORKER_PORT: field.port(8081),
      THUMBNAIL_ATTEMPTS: field.count(3, 1_000),
      THUMBNAIL_RETRY_DELAY: field.duration("30s"),
    },
    process.env,
  ),
);

/** What the environment says; nothing else of the app reads it. */
export const config = {
  databaseUrl: environment.DATABASE_URL,
  schema: environment.JOBS_SCHEMA,
  host: environment.HOST,
  port: environment.WORKER_PORT,
  thumbnails: {
    attempts: environment.THUMBNAIL_ATTEMPTS,
    retryDelay: environment.THUMBNAIL_RETRY_DELAY,
  },
};
