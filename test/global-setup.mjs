import pg from "pg";
import { startPgbouncer } from "../tools/pgbouncer.mjs";
import { startTestPostgres } from "../tools/test-postgres.mjs";

// Runs that go side by side on one server have databases of different names.
process.env.TEST_DATABASES ??= "jobs_test";

/**
 * One server for the whole run, one empty database per Jest worker. With TEST_POOLER=1 what is tested goes through
 * a transaction pooler with two connections to each database.
 */
export default async function globalSetup({ maxWorkers }) {
  let url = process.env.TEST_DATABASE_URL;
  if (!url) {
    globalThis.testPostgres = await startTestPostgres();
    url = globalThis.testPostgres.url();
  }
  try {
    await createDatabases(url, maxWorkers);
    if (process.env.TEST_POOLER === "1") {
      globalThis.testPooler = await startPgbouncer({ url });
      process.env.TEST_POOLER_URL = globalThis.testPooler.url();
    }
  } catch (error) {
    // without a finished setup Jest runs no teardown
    await globalThis.testPostgres?.stop();
    throw error;
  }
  process.env.TEST_BASE_URL = url;
}

async function createDatabases(url, count) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    for (let worker = 1; worker <= count; worker++) {
      const name = `${process.env.TEST_DATABASES}_${worker}`;
      await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      await client.query(`CREATE DATABASE ${name}`);
    }
  } finally {
    await client.end();
  }
}
