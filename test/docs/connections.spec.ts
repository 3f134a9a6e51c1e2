import { readFileSync } from "node:fs";
import path from "node:path";
import type { INestApplicationContext } from "@nestjs/common";
import { type JobContext, JobInspector, JobQueue, JobsModule } from "nestjs-pg-jobs";
import { parseJobsOptions } from "../../libs/jobs/src/jobs.options.js";
import { Bench, feature } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { Role } from "../support/role.js";
import { SampleApps, asAdmin } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The table of connections in docs/operations.md, counted: each app under a role of its own, past a pooler.

const page = readFileSync(path.join(import.meta.dirname, "../../docs/operations.md"), "utf8");
type App = "producer" | "worker" | "admin";

/** What the page says that an app opens; what it opens more than once is not in it. */
const said: Record<App, Record<string, string>> = { producer: {}, worker: {}, admin: {} };
const most: Partial<Record<App, string>> = {};
const rows = page
  .slice(page.indexOf("\n## Connections"))
  .split("\n")
  .filter((line) => line.startsWith("| "))
  .map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
const apps = rows[0]!.slice(1) as App[];
for (const [name, ...cells] of rows.slice(2, rows.findIndex(([first]) => first === "at most") + 1))
  cells.forEach((cell, n) => {
    if (name === "at most") most[apps[n]!] = cell.replaceAll("`", "");
    else if (cell !== "") said[apps[n]!][name!.replaceAll("`", "")] = cell;
  });

let bench: Bench;
const roles = {} as Record<App, Role>;

beforeAll(async () => {
  bench = await Bench.open();
  for (const app of ["producer", "worker", "admin"] as const) {
    roles[app] = await Role.create(bench);
    await roles[app].grantAll();
  }
});
afterAll(async () => {
  await bench.close();
  for (const role of Object.values(roles)) await role.drop();
});

/** The connections of a role, by name, each as often as it is open. */
const openOf = async (role: Role): Promise<string[]> => {
  const found = await bench.sql<{ name: string }>(
    "select application_name as name from pg_stat_activity where usename = $1",
    [role.name],
  );
  // While a transaction is under way its name has a mark behind it, by which it is found again.
  return found.map(({ name }) => name.replace(/ [0-9a-f]{12}$/, "")).sort();
};
/** Those of an app, once there are as many as are expected, or when that does not come. */
const opened = async (app: App, { length }: readonly string[]): Promise<string[]> => {
  await until(async () => (await openOf(roles[app])).length === length).catch(() => undefined);
  return await openOf(roles[app]);
};
/** It has these, and no others. */
const told = async (app: App, names: readonly string[]) =>
  expect(await opened(app, names)).toEqual(names.toSorted());
const start = async (
  app: App,
  more: Parameters<Bench["app"]>[0] = [],
): Promise<INestApplicationContext> =>
  await bench.app([bench.root({ connection: { url: roles[app].url } }), ...more]);

it("the page has what the library opens, for each kind of app", () => {
  expect(apps).toEqual(["producer", "worker", "admin"]);
  expect(Object.keys(said.producer)).toEqual(["pg-jobs front", "pg-jobs listen", "pg-jobs aside"]);
  expect(Object.keys(said.worker)).toHaveLength(7);
  expect(Object.keys(said.admin)).toEqual(["pg-jobs front", "pg-jobs aside"]);
});

it("a producer opens one, one while it waits for a result, one once it has read counters", async () => {
  const app = await start("producer");
  await told("producer", []);
  const jobs = app.get(JobQueue);
  const { id } = await jobs.enqueue("nobody-knows-it");
  await told("producer", ["pg-jobs front"]);
  const result = jobs.result(id).catch((error: unknown) => error);
  await told("producer", ["pg-jobs front", "pg-jobs listen"]);
  await app.get(JobInspector).counts();
  const all = Object.keys(said.producer);
  await told("producer", all);
  expect(most.producer).toBe(String(all.length));
  await jobs.cancel(id);
  expect(await result).toMatchObject({ code: "RESULT_CANCELLED" });
  await told("producer", ["pg-jobs front", "pg-jobs aside"]);
});

it("an admin app opens two", async () => {
  const apps = new SampleApps(bench.schema, roles.admin.url);
  try {
    const admin = await apps.admin();
    await told("admin", []);
    for (const page of ["stats", "jobs/1-1"]) await admin.get(`/admin/${page}`, asAdmin);
    const all = Object.keys(said.admin);
    await told("admin", all);
    expect(most.admin).toBe(String(all.length));
  } finally {
    await apps.close();
  }
});

describe("a worker", () => {
  const gate = new Gate();
  const { connections } = parseJobsOptions({ connection: { url: "postgres://u@h/d" } });
  const fixedOnes = Object.keys(said.worker).filter((name) => name !== "pg-jobs transaction");
  let worker: INestApplicationContext;
  let jobs: JobQueue;
  let inside = 0;

  beforeAll(async () => {
    const handlers = feature([
      handler("quick", () => "done"),
      handler("long", async () => await gate.opened),
      handler("writes", async (_, job: JobContext) => {
        await job.transaction(async (tx) => {
          await tx.query("select 1");
          inside++;
          await gate.opened;
        });
      }),
    ]);
    worker = await start("worker", [
      JobsModule.forWorker({
        imports: [handlers],
        lease: "2s",
        queues: { default: { concurrency: 3 * connections } },
      }),
    ]);
    jobs = await bench.producer();
  });
  afterAll(() => gate.open());

  it("opens five by and by: the last two when a job has ended, and when one lasts", async () => {
    await told("worker", ["pg-jobs claim", "pg-jobs front", "pg-jobs listen"]);
    const { id } = await jobs.enqueue("quick");
    await reached(bench, id, "succeeded");
    await told("worker", ["pg-jobs claim", "pg-jobs front", "pg-jobs listen", "pg-jobs settle"]);
    await jobs.enqueue("long");
    await told(
      "worker",
      fixedOnes.filter((name) => name !== "pg-jobs aside"),
    );
  });

  it("one more for whoever reads counters", async () => {
    await worker.get(JobInspector).counts();
    await told("worker", fixedOnes);
    expect(fixedOnes).toHaveLength(6);
  });

  it("and one for each transaction under way, never more than its cap", async () => {
    const transactions = (count: number) =>
      Array.from({ length: count }, () => "pg-jobs transaction");
    await jobs.enqueue("writes");
    await told("worker", [...fixedOnes, ...transactions(1)]);
    await jobs.enqueueMany(
      "writes",
      Array.from({ length: 2 * connections }, () => ({})),
    );
    const left = connections - fixedOnes.length;
    await told("worker", [...fixedOnes, ...transactions(left)]);
    expect(most.worker).toBe("connections");
    // All of them run; those that have no connection wait in line.
    await until(() => inside >= left, { what: "those that have one are in their transactions" });
    await until(
      async () =>
        (
          await bench.sql(
            "select 1 from jobs.job_status where kind = 'writes' and state = 'running'",
          )
        ).length ===
        2 * connections + 1,
      { what: "all run" },
    );
    expect(inside).toBe(left);
    expect(await openOf(roles.worker)).toHaveLength(connections);
  });
});

it("a worker without hints opens one less", async () => {
  const without = await Role.create(bench);
  try {
    await without.grantAll();
    const app = await bench.app([
      bench.root({ connection: { url: without.url }, notify: false }),
      JobsModule.forWorker({
        imports: [feature([handler("silent", () => "done")])],
        poll: "100ms",
      }),
    ]);
    const { id } = await app.get(JobQueue).enqueue("silent");
    await reached(bench, id, "succeeded");
    expect(await openOf(without)).toEqual(["pg-jobs claim", "pg-jobs front", "pg-jobs settle"]);
    await app.close();
  } finally {
    await without.drop();
  }
});
