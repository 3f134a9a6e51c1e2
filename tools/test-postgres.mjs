import { startPostgres } from "./postgres.mjs";

/** The server that the specs run against, unless TEST_DATABASE_URL names another. */
export const startTestPostgres = () =>
  startPostgres({
    settings: { shared_preload_libraries: "pg_stat_statements", max_prepared_transactions: 10 },
  });
