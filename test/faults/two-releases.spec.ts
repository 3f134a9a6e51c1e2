import { FULL_VERSION } from "../../libs/jobs/src/store/migrations/migrate.js";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { Release } from "../support/release.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

// A deploy in the middle: processes of the release before and of this one enqueue and work at the same time, on the
// schema of either, and while the one becomes the other.

const old = new Release("0.1.0");
const PER_SCRIPT = 60;

/** What a job does run by run, and where that ends. */
const SCRIPTS: { steps: string[]; state: string; failures: number }[] = [
  { steps: ["return"], state: "succeeded", failures: 0 },
  { steps: ["throw", "return"], state: "succeeded", failures: 1 },
  { steps: ["snooze", "throw", "snooze", "return"], state: "succeeded", failures: 1 },
  { steps: ["throw", "skip"], state: "skipped", failures: 1 },
  { steps: ["snooze", "bury"], state: "dead", failures: 0 },
  { steps: ["throw", "throw", "throw"], state: "dead", failures: 3 },
];

let bench: Bench;
let ledger: Ledger;
let log: TransitionLog;
const workers: WorkerProcess[] = [];

beforeEach(async () => {
  bench = await Bench.open({ migrated: false });
  ledger = new Ledger();
  migrateAsBefore();
  log = await TransitionLog.install(bench);
});
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.end()));
  await log.remove();
  await bench.close();
  ledger.remove();
});

const migrateAsBefore = () => old.cli(["migrate", "--url", bench.url, "--schema", bench.schema]);
const version = async () =>
  (await bench.sql<{ v: number }>("select max(version) as v from jobs.migration"))[0]!.v;

async function start(release?: Release): Promise<WorkerProcess> {
  const worker = WorkerProcess.start({
    url: bench.url,
    schema: bench.schema,
    ledger,
    lease: "30s",
    ...(release ? { release: release.dist } : {}),
  });
  workers.push(worker);
  await worker.ready();
  return worker;
}

/** Each script from each of the processes, half of them with keys that both of them use. */
async function load(
  from: readonly WorkerProcess[],
  round: string,
  scripts = SCRIPTS,
): Promise<Map<string, number>> {
  const expected = new Map<string, number>();
  const calls = scripts.flatMap(({ steps }, script) =>
    from.map(async (worker, n) => {
      const payloads = Array.from({ length: PER_SCRIPT }, () => ({ steps }));
      const ids = await worker.enqueue("script", payloads, `${round} ${script} ${n} `);
      for (const id of ids) expected.set(id, script);
    }),
  );
  await Promise.all(calls);
  return expected;
}

async function settled(count: number): Promise<void> {
  await until(async () => (await left()) === 0 && (await total()) === count, {
    timeout: 60_000,
    every: 50,
    what: `${count} jobs have ended`,
  });
}
const count = async (where: string) =>
  (
    await bench.sql<{ n: number }>(`select count(*)::int as n from jobs.job_status where ${where}`)
  )[0]!.n;
const left = async () => await count("state in ('queued', 'running')");
const total = async () => await count("true");

/** Every job ended where its script says, each run was one, and nothing was against the rules. */
async function holds(expected: Map<string, number>): Promise<void> {
  await settled(expected.size);
  const rows = await bench.sql<{ id: string; state: string; failures: number; attempt: number }>(
    "select id, state, failures, attempt from jobs.job_status",
  );
  const wrong = rows.filter(({ id, state, failures, attempt }) => {
    const script = SCRIPTS[expected.get(id)!]!;
    // What was claimed and handed back unstarted has a number more; that is done with jobs of one step only.
    const numbers = script.steps.length === 1 ? Math.min(attempt, 1) : attempt;
    return (
      state !== script.state || failures !== script.failures || numbers !== script.steps.length
    );
  });
  expect(wrong).toEqual([]);
  const starts = ledger.startsById();
  const often = rows.filter(
    ({ id }) => starts.get(id) !== SCRIPTS[expected.get(id)!]!.steps.length,
  );
  expect(often).toEqual([]);
  expect(await violations(bench, { log, ledger, acknowledged: [...expected.keys()] })).toEqual([]);
}

describe("two releases at once", () => {
  it("work on the schema of the one before", async () => {
    const both = [await start(old), await start()];
    await holds(await load(both, "one"));
    expect(await version()).toBe(1);
    for (const { pid } of both) expect(ledger.starts().some((line) => line.pid === pid)).toBe(true);
  }, 120_000);

  it("work on the schema of this one", async () => {
    await bench.migrate();
    const both = [await start(old), await start()];
    await holds(await load(both, "one"));
    expect(await version()).toBe(FULL_VERSION);
    for (const { pid } of both) expect(ledger.starts().some((line) => line.pid === pid)).toBe(true);
  }, 120_000);

  it("work while the schema is migrated, and while processes are replaced", async () => {
    const [before, now] = [await start(old), await start()];
    const loads = [load([before, now], "before")];
    await until(() => ledger.starts().length > 100, { what: "they work" });
    loads.push(load([before, now], "meanwhile"));
    await bench.migrate();
    const next = await start();
    loads.push(load([before, now, next], "after"));
    await until(() => ledger.starts().some((line) => line.pid === next.pid), { what: "it works" });
    const all = new Map((await Promise.all(loads)).flatMap((one) => [...one]));
    await holds(all);

    const simple = SCRIPTS.slice(0, 1);
    const replaced = [load([now, next], "replaced", simple), before.end()] as const;
    for (const [id, script] of await replaced[0]) all.set(id, script);
    expect(await replaced[1]).toBe(0);
    await holds(all);
    expect(await now.end()).toBe(0);
    expect(await next.end()).toBe(0);
    // The one before comes back: a deploy is rolled back, its schema is not.
    for (const [id, script] of await load([await start(old)], "back")) all.set(id, script);
    await holds(all);
  }, 240_000);
});
