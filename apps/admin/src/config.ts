import { field, orExit, readEnvironment } from "nestjs-pg-jobs-samples";

const environment = orExit(() =>
  readEnvironment(
    {
      DATABASE_URL: field.databaseUrl(),
      JOBS_SCHEMA: field.schema(),
      HOST: field.host(),
      ADMIN_PORT: field.port(3001),
      ADMIN_TOKEN: field.secret(16),
    },
    process.env,
  ),
);

/** What the environment says; nothing else of the app reads it. */
export const config = {
  databaseUrl: environment.DATABASE_URL,
  schema: environment.JOBS_SCHEMA,
  host: environment.HOST,
  port: environment.ADMIN_PORT,
  token: environment.ADMIN_TOKEN,
};
