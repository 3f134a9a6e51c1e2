import { field, orExit, readEnvironment } from "nestjs-pg-jobs-samples";

const environment = orExit(() =>
  readEnvironment(
    {
      DATABASE_URL: field.databaseUrl(),
      JOBS_SCHEMA: field.schema(),
      HOST: field.host(),
      ADMIN_PORT: field.port(3001),
      ADMIN_TOKEN: field.secret(16),
      ADMIN_OPERATOR_TOKEN: field.secret(16).optional(),
      ADMIN_VIEWER_TOKEN: field.secret(16).optional(),
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
  tokens: {
    admin: environment.ADMIN_TOKEN,
    operator: environment.ADMIN_OPERATOR_TOKEN,
    viewer: environment.ADMIN_VIEWER_TOKEN,
  },
};
