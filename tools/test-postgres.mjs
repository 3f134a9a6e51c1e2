import { startPostgres } from "./postgres.mjs";

/** The server that the specs run against, unless TEST_DATABASE_URL names another; TEST_POSTGRES=14 is the oldest. */
export const startTestPostgres = () =>
  startPostgres({
    major: process.env.TEST_POSTGRES,
    settings: { shared_preload_libraries: "pg_stat_statements", max_prepared_transactions: 10 },
  });
