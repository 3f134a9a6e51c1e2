import { createPostgresBackend, runMigrations } from "bullmq";
import pg from "pg";
import { openBullMq } from "./bullmq.mjs";
import { Sql } from "./sql.mjs";

// Each job is a transaction or two of its own: more at once only wait for one another.
const CONCURRENCY = 8;
const PRODUCING = 16;

export function open({ url }) {
  const sql = new Sql(url);
  const bullMq = openBullMq({
    connection: { connectionString: url, max: CONCURRENCY },
    producing: { connectionString: url, max: PRODUCING },
    concurrency: CONCURRENCY,
    backend: [createPostgresBackend],
    install: async () => {
      const client = new pg.Client(url);
      await client.connect();
      await runMigrations(client);
      await client.end();
    },
  });
  return {
    ...bullMq,
    // its own counts walk all jobs
    left: async () =>
      (
        await sql.run(
          ["active", "waiting", "delayed"]
            .map(
              (state) =>
                `(select from bullmq.job where queue = 'bench' and state = '${state}' limit 1)`,
            )
            .join(" union all "),
        )
      ).length > 0,
    close: async () => {
      await bullMq.close();
      await sql.close();
    },
  };
}
