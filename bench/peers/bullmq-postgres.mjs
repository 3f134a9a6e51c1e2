import { createPostgresBackend, runMigrations } from "bullmq";
import pg from "pg";
import { openBullMq } from "./bullmq.mjs";

// Each job is a transaction or two of its own: more at once only wait for one another.
const CONCURRENCY = 8;

export const open = ({ url }) =>
  openBullMq({
    connection: { connectionString: url, max: CONCURRENCY },
    concurrency: CONCURRENCY,
    backend: [createPostgresBackend],
    install: async () => {
      const client = new pg.Client(url);
      await client.connect();
      await runMigrations(client);
      await client.end();
    },
  });
