import { field, orExit, readEnvironment } from "nestjs-pg-jobs-samples";

const environment = orExit(() =>
  readEnvironment(
    {
      DATABASE_URL: field.databaseUrl(),
      JOBS_SCHEMA: field.schema(),
      HOST: field.host(),
      API_PORT: field.port(3000),
    },
    process.env,
  ),
);

/** What the environment says; nothing else of the app reads it. */
export const config = {
  databaseUrl: environment.DATABASE_URL,
  schema: environment.JOBS_SCHEMA,
  host: environment.HOST,
  port: environment.API_PORT,
};
