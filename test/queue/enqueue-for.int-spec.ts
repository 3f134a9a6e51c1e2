import { type EnqueueOptions, EnqueueOutcomeUnknownError, LeaseLostError } from "nestjs-pg-jobs";
import { Database } from "../../libs/jobs/src/pg/database.js";
import { enqueueFor } from "../../libs/jobs/src/queue/enqueue-for.js";
import { Hints } from "../../libs/jobs/src/queue/hints.js";
import { LocalWorkers } from "../../libs/jobs/src/queue/local-workers.js";
import { Store } from "../../libs/jobs/src/store/store.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import type { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

// What a running attempt enqueues is fenced by the attempt, in one statement, at once.

let bench: Bench;
let hands: Hands;
let proxy: TcpProxy;
let database: Database;
let lost: number;
/** The kinds of jobs that workers were told of. */
let told: string[];
let child: (options?: EnqueueOptions) => Promise<{ id: string; deduplicated: boolean }>;
let parent: { queueId: number; id: string; attempt: number; worker: number };

beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  await bench.sql("truncate jobs.job");
  const line = await bench.line();
  proxy = line.proxy;
  database = new Database({ connectionString: line.url }, bench.schema, 2);
  const store = new Store(database);
  const workers = new LocalWorkers();
  told = [];
  workers.add({
    wake: (_, kind) => told.push(kind) > 0,
    changed: () => undefined,
    control: () => false,
  });
  const hints = new Hints(store, bench.schema, false, workers);
  await hands.add();
  const [claim] = await hands.claim(await hands.worker());
  parent = claim!;
  lost = 0;
  child = async (options) =>
    await enqueueFor(
      { store, hints, payloadLimit: 100 },
      () => parent,
      "child",
      {},
      options,
      () => lost++,
    );
  await child();
  await bench.sql("delete from jobs.job where kind = 'child'");
});
afterEach(async () => await database.close());

const children = async () =>
  (
    await bench.sql<{ id: string }>(
      "select id from jobs.job_status where kind = 'child' order by number",
    )
  ).map(({ id }) => id);

describe("a child of a running attempt", () => {
  it("is there at once, and holds its key", async () => {
    const { id, deduplicated } = await child({ key: "k" });
    expect(deduplicated).toBe(false);
    expect(await child({ key: "k" })).toEqual({ id, deduplicated: true });
    expect(await children()).toEqual([id]);
  });

  it.each<[string, EnqueueOptions]>([
    ["at once", {}],
    ["at a time", { at: new Date() }],
  ])("that is due %s is told to workers", async (_, options) => {
    told = [];
    await child(options);
    expect(told).toEqual(["child"]);
  });

  it("is refused when the attempt is not the current one any more", async () => {
    const superseded = parent;
    await hands.expire(parent.id);
    const [next] = await hands.claim(await hands.worker(), { takeOver: true });
    await expect(child()).rejects.toThrow(LeaseLostError);
    for (const half of [{ attempt: next!.attempt }, { worker: next!.worker }]) {
      parent = { ...superseded, ...half };
      await expect(child()).rejects.toThrow(LeaseLostError);
    }
    expect(lost).toBe(3);
    expect(await children()).toEqual([]);
  });

  it.each(["keep", "replace"] as const)(
    "with a window or a replacement (%s) is refused as well, and no other job is touched",
    async (onConflict) => {
      const { id } = await child({ key: "k" });
      parent = { ...parent, attempt: parent.attempt + 1 };
      const before = await bench.sql("select * from jobs.job order by id");
      for (let n = 0; n < 8; n++)
        for (const key of ["k", `fresh ${n}`])
          await expect(child({ key, onConflict, window: "1h" })).rejects.toThrow(LeaseLostError);
      expect(await children()).toEqual([id]);
      expect(await bench.sql("select * from jobs.job order by id")).toEqual(before);
      expect(await bench.sql("select from jobs.dedup")).toEqual([]);
    },
  );

  it("waits for a take-over that is under way, and is refused after it", async () => {
    await hands.expire(parent.id);
    const thief = await bench.client();
    await thief.query("begin");
    await thief.query(
      `update ${bench.schema}.job set attempt = attempt + 1, worker = worker + 1 where id = ${parent.id}`,
    );
    const call = child();
    call.catch(() => undefined);
    await until(
      async () =>
        (
          await bench.sql(
            "select 1 from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0",
          )
        ).length,
      { what: "the child waits for the thief" },
    );
    await thief.query("commit");
    thief.release();
    await expect(call).rejects.toThrow(LeaseLostError);
    expect(await children()).toEqual([]);
  });

  it.each(["mute", "deaf"] as const)("is made once when the line breaks (%s)", async (mode) => {
    proxy.setMode(mode);
    const call = child();
    if (mode === "mute") await until(async () => (await children()).length, { what: "the commit" });
    else await until(() => proxy.held > 0, { what: "the statement is on the line" });
    proxy.resetAll();
    proxy.setMode("pass");
    const { id, deduplicated } = await call;
    expect(deduplicated).toBe(false);
    expect(await children()).toEqual([id]);
  });

  it("whose outcome stays unknown is said to be so", async () => {
    proxy.setMode("mute");
    const call = child();
    await until(async () => (await children()).length, { what: "the commit" });
    proxy.setMode("reset");
    const error = await call.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(EnqueueOutcomeUnknownError);
    expect((error as EnqueueOutcomeUnknownError).ids).toEqual(await children());
  });

  it("is made under the newer fence when its parent is handed out anew to the same process meanwhile", async () => {
    // The server lost our claim in a crash: the same process has the job again, under its next worker id.
    const newer = { ...parent, worker: await hands.worker() };
    await bench.sql("update jobs.job set worker = $1 where id = $2", [newer.worker, parent.id]);
    const old = parent;
    let asked = 0;
    const store = new Store(database);
    const answer = await enqueueFor(
      {
        store,
        hints: new Hints(store, bench.schema, false, new LocalWorkers()),
        payloadLimit: 100,
      },
      () => (asked++ === 0 ? old : newer),
      "child",
      {},
      undefined,
      () => lost++,
    );
    expect(lost).toBe(0);
    expect(await children()).toEqual([answer.id]);
  });
});
