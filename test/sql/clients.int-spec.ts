import { drizzle } from "drizzle-orm/node-postgres";
import knexOf from "knex";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { DataSource } from "typeorm";
import { Bench, behindPooler, databaseUrl, otherDatabase } from "../support/harness.js";
import * as withDrizzle from "./clients/with-drizzle.js";
import * as withKnex from "./clients/with-knex.js";
import * as withKysely from "./clients/with-kysely.js";
import * as withPg from "./clients/with-pg.js";
import * as withPostgresJs from "./clients/with-postgres-js.js";
import * as withTypeOrm from "./clients/with-typeorm.js";

// Each client makes a row and a job in one transaction of its own; when that rolls back, neither is there.

const database = `clients_${process.pid}`;
let bench: Bench;
beforeAll(async () => {
  await asAdmin(`create database ${database}`);
  bench = await Bench.open({ ...otherDatabase(database), migrated: false });
  // The clients' code names the schema as the documentation does.
  await bench.producer({ schema: "jobs", migrate: "on-start" });
  await query("create table account (email text primary key)");
  await query("select jobs.declare('default', 'mail.welcome')");
});
afterAll(async () => {
  await bench.close();
  await asAdmin(`drop database ${database} with (force)`);
});

async function asAdmin(text: string): Promise<void> {
  const client = new pg.Client(databaseUrl());
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

/** As it stands, in schema `jobs`. */
async function query(text: string, values: unknown[] = []): Promise<pg.QueryResultRow[]> {
  const client = await bench.client();
  try {
    return (await client.query(text, values)).rows as pg.QueryResultRow[];
  } finally {
    client.release();
  }
}

interface Client {
  register(email: string): Promise<string>;
  close(): Promise<unknown>;
}

const CLIENTS: Record<string, () => Promise<Client>> = {
  async pg() {
    const client = new pg.Client(bench.url);
    await client.connect();
    return { register: (email) => withPg.register(client, email), close: () => client.end() };
  },
  async TypeORM() {
    const source = await new DataSource({ type: "postgres", url: bench.url }).initialize();
    return {
      register: (email) => withTypeOrm.register(source, email),
      close: () => source.destroy(),
    };
  },
  async Knex() {
    const knex = knexOf({ client: "pg", connection: bench.url });
    return { register: (email) => withKnex.register(knex, email), close: () => knex.destroy() };
  },
  async Kysely() {
    const pool = new pg.Pool({ connectionString: bench.url });
    const db = new Kysely<withKysely.Tables>({ dialect: new PostgresDialect({ pool }) });
    return { register: (email) => withKysely.register(db, email), close: () => db.destroy() };
  },
  async Drizzle() {
    const pool = new pg.Pool({ connectionString: bench.url });
    const db = drizzle(pool);
    return { register: (email) => withDrizzle.register(db, email), close: () => pool.end() };
  },
  async "postgres.js"() {
    // it prepares by name unless it is told not to: docs/poolers.md
    const sql = postgres(bench.url, { prepare: !behindPooler });
    return { register: (email) => withPostgresJs.register(sql, email), close: () => sql.end() };
  },
};

describe.each(Object.entries(CLIENTS))("through %s", (name, open) => {
  const email = `"o'hara" äö😀 \\ @${name}`;
  const jobs = async () =>
    await query(
      "select id, kind, queue, state, payload from jobs.job_status where payload ->> 'email' = $1",
      [email],
    );
  const accounts = async () => await query("select email from account where email = $1", [email]);
  let client: Client;
  beforeAll(async () => void (client = await open()));
  afterAll(async () => await client.close());

  it("a job is there with what was committed beside it, and not with what was rolled back", async () => {
    const id = await client.register(email);
    const job = { id, kind: "mail.welcome", queue: "default", state: "queued", payload: { email } };
    expect(await jobs()).toEqual([job]);
    expect(await accounts()).toEqual([{ email }]);
    // The account is there already: its row fails after the job has been made.
    await expect(client.register(email)).rejects.toThrow();
    expect(await jobs()).toEqual([job]);
    await query("delete from account");
    await query("truncate jobs.job");
    expect(await client.register(email)).not.toBe(id);
    expect(await jobs()).toHaveLength(1);
  });
});
