import { readFileSync } from "node:fs";
import path from "node:path";
import { Logger, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { JobQueue } from "nestjs-pg-jobs";
import pg from "pg";
import { Database } from "../../libs/jobs/src/pg/database.js";
import { migrate } from "../../libs/jobs/src/store/migrations/migrate.js";
import { handler } from "../support/handlers.js";
import { Bench, otherDatabase } from "../support/harness.js";
import { until } from "../support/until.js";
import { BillingJobs } from "./two-databases.example.js";

// What docs/performance.md shows of two databases in one process is a file that is compiled, and run.

const NAME = "two_databases";
const SCHEMA = "jobs";

describe("jobs of two databases in one process", () => {
  let bench: Bench;
  let admin: pg.Client;
  const { direct, url } = otherDatabase(NAME);
  beforeAll(async () => {
    bench = await Bench.open();
    admin = new pg.Client(bench.direct);
    await admin.connect();
    await admin.query(`drop database if exists ${NAME} with (force)`);
    await admin.query(`create database ${NAME}`);
    const database = new Database({ connectionString: url }, SCHEMA, 1);
    await migrate(database.open("front"));
    await database.close();
    process.env["BILLING_DATABASE_URL"] = url;
    Logger.overrideLogger(false);
  });
  afterAll(async () => {
    Logger.overrideLogger(["error", "fatal"]);
    delete process.env["BILLING_DATABASE_URL"];
    await admin.query(`drop database if exists ${NAME} with (force)`);
    await admin.end();
    await bench.close();
  });

  it("each goes where it belongs, and both connections end with the app", async () => {
    await bench.worker([handler("here", () => "done")]);
    @Module({ imports: [bench.root()], providers: [BillingJobs] })
    class App {}
    const app = await NestFactory.createApplicationContext(App, { abortOnError: false });
    const here = await app.get(JobQueue).enqueue("here", {});
    const there = await app.get(BillingJobs).queue.enqueue("there", {});
    await until(async () => (await bench.state(here.id)) === "succeeded", { what: "it has run" });
    const other = new pg.Client(direct);
    await other.connect();
    const { rows } = await other.query(`select id, kind, state from ${SCHEMA}.job_status`);
    expect(rows).toEqual([{ id: there.id, kind: "there", state: "queued" }]);
    expect(await bench.sql("select kind from jobs.job_status")).toEqual([{ kind: "here" }]);
    await app.close();
    const { rows: left } = await other.query(
      "select pid from pg_stat_activity where datname = $1 and application_name like 'pg-jobs %'",
      [NAME],
    );
    expect(left).toEqual([]);
    await other.end();
  });

  it("the example is the file", () => {
    const [page, file] = ["../../docs/performance.md", "two-databases.example.ts"].map((name) =>
      readFileSync(path.join(import.meta.dirname, name), "utf8"),
    );
    expect(page).toContain("```ts\n" + file + "```");
  });
});
