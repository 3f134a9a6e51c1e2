import { randomBytes } from "node:crypto";
import { type JobContext, JobQueue, JobsModule } from "nestjs-pg-jobs";
import pg from "pg";
import { Bench, databaseUrl, feature } from "../support/harness.js";
import { handler } from "../support/handlers.js";
import { sqlBlocks } from "../support/sql-blocks.js";
import { until } from "../support/until.js";

// What docs/operations.md says of a restored backup; the backup is a copy of the whole database, at one moment.

const [PASS_OVER] = sqlBlocks("docs/operations.md").get("Backup and restore")!;
const suffix = randomBytes(4).toString("hex");
const [LIVE, RESTORED] = [`live_${suffix}`, `restored_${suffix}`];
const urlOf = (database: string): string => {
  const url = new URL(databaseUrl());
  url.pathname = `/${database}`;
  return url.href;
};

let server: pg.Client;
let bench: Bench;
/** What bodies were told to be: by database, in the order of their runs. */
const seen: Record<string, string[]> = { [LIVE]: [], [RESTORED]: [] };

beforeAll(async () => {
  server = new pg.Client(databaseUrl());
  await server.connect();
  await server.query(`create database ${LIVE}`);
  bench = await Bench.open({ url: urlOf(LIVE) });
});
afterAll(async () => {
  await bench.close();
  for (const name of [RESTORED, LIVE])
    await server.query(`drop database if exists ${name} with (force)`);
  await server.end();
});

/** A worker of the schema of this spec in one of the databases. */
const workerIn = async (database: string): Promise<JobQueue> => {
  const root = JobsModule.forRoot({ connection: { url: urlOf(database) }, schema: bench.schema });
  const charge = handler(
    "charge",
    (_, job: JobContext) => void seen[database]!.push(job.idempotencyKey),
  );
  const app = await bench.app([
    root,
    JobsModule.forWorker({ imports: [feature([charge])], poll: "100ms" }),
  ]);
  return app.get(JobQueue);
};
const ran = async (database: string, id: string) =>
  await until(() => seen[database]!.includes(id), { what: `${id} has run` });
const numberOf = (id: string) => BigInt(id.split("-")[1]!);

it("runs again what has run since, under its id, and gives no number out again", async () => {
  const before = await workerIn(LIVE);
  const done = (await before.enqueue("charge")).id;
  await ran(LIVE, done);
  const waiting = (await before.enqueue("charge", {}, { delay: "1h" })).id;
  await bench.closeApps();

  // The backup. A copy is refused while anybody is connected.
  await server.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", [
    LIVE,
  ]);
  await until(
    async () => await server.query(`create database ${RESTORED} template ${LIVE}`).then(() => true),
    { what: "it is copied" },
  );

  // Life goes on: what waited runs, and more comes.
  const after = await workerIn(LIVE);
  await bench.age(waiting, "2 hours");
  await ran(LIVE, waiting);
  const since = await after.enqueueMany(
    "charge",
    Array.from({ length: 3_000 }, () => ({})),
  );
  await ran(LIVE, since.at(-1)!.id);
  const [{ workers }] = (await bench.sql<{ workers: number }>(
    "select max(id) as workers from jobs.worker",
  )) as [{ workers: number }];
  await bench.closeApps();

  // All is lost but the backup, and nobody has survived.
  const restored = new pg.Client(urlOf(RESTORED));
  await restored.connect();
  const sql = async (text: string) =>
    (await restored.query<Record<string, string>>(text.replaceAll(/\bjobs\./g, `${bench.schema}.`)))
      .rows;
  try {
    const [unfinished] = await sql(
      "select string_agg(id, ' ') as ids from jobs.job_status where state = 'queued'",
    );
    expect(unfinished).toEqual({ ids: waiting });
    const last = since.map(({ id }) => numberOf(id)).reduce((a, b) => (a > b ? a : b));
    const [given] = await sql("select last_value::text as last from jobs.job_id");
    expect(BigInt(given!.last!)).toBeLessThan(last); // it would be given out again
    await sql(PASS_OVER!);
    await sql("update jobs.job set run_at = now() - interval '1 hour'");
    const now = await workerIn(RESTORED);
    // At least once: it has run before, and its key tells.
    await ran(RESTORED, waiting);
    expect(seen[RESTORED]).toEqual([waiting]);
    expect(await now.get(done)).toMatchObject({ state: "succeeded" });
    expect(await now.get(since[0]!.id)).toBeNull();
    const next = (await now.enqueue("charge")).id;
    expect(numberOf(next)).toBeGreaterThan(last);
    const [{ least }] = (await sql(
      `select min(id) as least from jobs.worker where stopped_at is null`,
    )) as [{ least: string }];
    expect(Number(least)).toBeGreaterThan(workers);
  } finally {
    await restored.end();
  }
}, 60_000);
