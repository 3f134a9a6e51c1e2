import { jest } from "@jest/globals";
import { JobInspector, JobQueue } from "nestjs-pg-jobs";
import { unstorable } from "../../libs/jobs/src/job/stored-result.js";
import { formatJobId } from "../../libs/jobs/src/job/job-id.js";
import { Database } from "../../libs/jobs/src/pg/database.js";
import type { Attempt } from "../../libs/jobs/src/worker/attempt.js";
import type { Settlement } from "../../libs/jobs/src/worker/settlement.js";
import { Settler } from "../../libs/jobs/src/worker/settler.js";
import { Bench } from "../support/harness.js";
import { ClaimingHand, attemptOf } from "../support/claims.js";
import { payloads, row } from "../support/handlers.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

describe("Settler", () => {
  let bench: Bench;
  let proxy: TcpProxy;
  let jobs: JobQueue;
  let inspector: JobInspector;
  let hand: ClaimingHand;
  let database: Database;
  let settler: Settler;
  let told: { settled: string[]; lost: string[]; trouble: string[] };

  beforeEach(async () => {
    bench = await Bench.open();
    proxy = await TcpProxy.start(bench.url);
    const app = await bench.app([bench.root()]);
    jobs = app.get(JobQueue);
    inspector = app.get(JobInspector);
    hand = new ClaimingHand(bench);
    database = new Database({ connectionString: proxy.url(bench.url) }, bench.schema, 2);
    told = { settled: [], lost: [], trouble: [] };
    settler = new Settler(
      database.open("settle"),
      {
        settled: ({ id }) => told.settled.push(id),
        lost: ({ id }) => told.lost.push(id),
        trouble: (message) => told.trouble.push(message),
        failing: (error) => told.trouble.push(String(error)),
      },
      4_000_000,
    );
  });
  afterEach(async () => {
    settler.abandon();
    await proxy.close();
    await database.close(100);
    await hand.close();
    await bench.close();
  });

  /** So many attempts that run. */
  async function attempts(count: number): Promise<Attempt[]> {
    await jobs.enqueueMany("job", payloads(count));
    return (await hand.claim()).map((claim) => attemptOf(claim));
  }
  const succeed = (result: unknown): Settlement => ({ verb: "succeed", result });
  const states = async (all: readonly Attempt[]) =>
    await Promise.all(all.map(async ({ id }) => (await row(bench, id)).state));
  const elsewhere = async ({ claim }: Attempt) =>
    await bench.sql(
      "update jobs.job set attempt = attempt + 1, worker = worker + 1000 where id = $1",
      [claim.id],
    );

  it("writes every verb, all of one turn of the loop together", async () => {
    const all = await attempts(7);
    const error = new Error("failed");
    const verbs: Settlement[] = [
      succeed({ n: 1 }),
      { verb: "skip", reason: "nothing to do" },
      { verb: "snooze", delayMs: 60_000 },
      { verb: "retry", delayMs: 60_000, error },
      { verb: "bury", error, reason: "exhausted" },
      { verb: "hand-back", started: true, quarantine: false },
      { verb: "hand-back", started: false, quarantine: true },
    ];
    for (const [i, settlement] of verbs.entries()) settler.add(all[i]!, settlement);
    await settler.idle();
    expect(await states(all)).toEqual([
      "succeeded",
      "skipped",
      "queued",
      "queued",
      "dead",
      "queued",
      "queued",
    ]);
    expect(told.settled.toSorted()).toEqual(all.map(({ id }) => id).toSorted());
    expect(told.lost).toEqual([]);
    const lanes = await bench.sql<{ lane: number }>("select lane from jobs.job order by id");
    expect(lanes.map(({ lane }) => lane)).toEqual([0, 0, 0, 20_000]);
  });

  it("more than fits in a statement: all of them", async () => {
    const all = await attempts(1_100);
    for (const [i, attempt] of all.entries())
      settler.add(
        attempt,
        i % 10 === 0 ? { verb: "retry", delayMs: 60_000, error: new Error(`${i}`) } : succeed(i),
      );
    await settler.idle();
    expect(await bench.states()).toEqual({ succeeded: 990, queued: 110 });
    expect(new Set(told.settled).size).toBe(1_100);
  });

  it("what is in other hands is lost, written nowhere, and costs its neighbours nothing", async () => {
    const all = await attempts(4);
    await elsewhere(all[0]!);
    await elsewhere(all[2]!);
    settler.add(all[0]!, succeed("mine"));
    settler.add(all[1]!, succeed("mine"));
    settler.add(all[2]!, { verb: "bury", error: new Error("mine"), reason: "exhausted" });
    settler.add(all[3]!, { verb: "bury", error: new Error("mine"), reason: "exhausted" });
    await settler.idle();
    expect(told.lost.toSorted()).toEqual([all[0]!.id, all[2]!.id].toSorted());
    expect(await states(all)).toEqual(["running", "succeeded", "running", "dead"]);
    expect(await inspector.attempts(all[2]!.id)).toEqual([]);
  });

  it.each<{ verb: string; settlement: Settlement }>([
    { verb: "succeed", settlement: succeed(1) },
    { verb: "retry", settlement: { verb: "retry", delayMs: 1, error: new Error("x") } },
    { verb: "bury", settlement: { verb: "bury", error: new Error("x"), reason: "exhausted" } },
    { verb: "snooze", settlement: { verb: "snooze", delayMs: 1 } },
    { verb: "hand-back", settlement: { verb: "hand-back", started: true, quarantine: false } },
  ])(
    "the answer to $verb gets lost: sent again, found written, and not lost",
    async ({ settlement }) => {
      const all = await attempts(2);
      await elsewhere(all[1]!);
      const client = await bench.client();
      await client.query("begin");
      await client.query(`select 1 from ${bench.schema}.job for update`);
      for (const attempt of all) settler.add(attempt, settlement);
      const blocked =
        "select 1 from pg_stat_activity where datname = current_database() and application_name like 'pg-jobs settle%' and wait_event_type = 'Lock'";
      await until(async () => (await bench.sql(blocked)).length === 1, {
        what: "it waits for the lock",
      });
      proxy.resetAll();
      await client.query("commit");
      client.release();
      await settler.idle();
      expect(told).toMatchObject({ settled: [all[0]!.id], lost: [all[1]!.id] });
      const [error] = await bench.sql<{ n: number }>(
        "select count(*)::int as n from jobs.attempt_error",
      );
      expect(error!.n).toBe(settlement.verb === "retry" || settlement.verb === "bury" ? 1 : 0);
    },
  );

  it("the database is away: written when it is back", async () => {
    const all = await attempts(3);
    proxy.setMode("reset");
    settler.add(all[0]!, succeed(0));
    await until(() => proxy.mode === "reset");
    settler.add(all[1]!, { verb: "retry", delayMs: 1, error: new Error("x") });
    settler.add(all[2]!, succeed(2));
    expect(await states(all)).toEqual(["running", "running", "running"]);
    // Nobody else may have noticed: this connection is its own.
    await until(() => told.trouble.length > 0, { what: "it says so" });
    expect(settler.failingSince).toBeDefined();
    proxy.setMode("pass");
    await settler.idle();
    expect(settler.failingSince).toBeUndefined();
    expect(told.settled).toHaveLength(3);
    expect(told.lost).toEqual([]);
  });

  it("one that is locked waits once, though the connection breaks under the others", async () => {
    const [locked, free] = (await attempts(2)) as [Attempt, Attempt];
    const client = await bench.client();
    await client.query("begin");
    await client.query(
      "select from jobs.job where id = $1 for update".replace("jobs", bench.schema),
      [locked.claim.id],
    );
    for (const attempt of [locked, free]) settler.add(attempt, succeed(1));
    // Once it has waited for the lock, and before anything else is sent.
    const armed = jest.spyOn(told.trouble, "push").mockImplementationOnce((message) => {
      proxy.deafFrom("succeed", "-> succeeded");
      return told.trouble.unshift(message);
    });
    await until(() => proxy.held > 0, { what: "the free one is on the line" });
    proxy.resetAll();
    proxy.setMode("pass");
    await until(() => told.settled.length === 1, { what: "the free one is written" });
    expect(armed).toHaveBeenCalled();
    await client.query("commit");
    await until(() => told.settled.includes(locked.id), { what: "the other one too" });
    const since = performance.now();
    await until(() => performance.now() - since > 500, { what: "it would have been asked again" });
    await settler.idle();
    expect(told).toMatchObject({ settled: [free.id, locked.id], lost: [] });
  });

  it("one that PostgreSQL refuses is settled without its value, and the others with theirs", async () => {
    const all = await attempts(3);
    await bench.sql(`create function jobs.refuse() returns trigger language plpgsql as $$ begin
      if new.result = '"poison"' then raise exception 'poison' using errcode = '22P05'; end if; return new; end $$`);
    await bench.sql(
      "create trigger refuse before insert on jobs.done for each row execute function jobs.refuse()",
    );
    for (const [i, result] of ["a", "poison", "c"].entries()) settler.add(all[i]!, succeed(result));
    await settler.idle();
    const rows = await Promise.all(all.map(async ({ id }) => await row(bench, id)));
    expect(rows.map(({ state, result }) => [state, result])).toEqual([
      ["succeeded", "a"],
      ["succeeded", JSON.parse(unstorable(undefined))],
      ["succeeded", "c"],
    ]);
    expect(told.trouble).toEqual([expect.stringContaining("poison")]);
  });

  it("one that is too long is not stored, and not even made into text", async () => {
    const all = await attempts(4);
    const stringify = jest.spyOn(JSON, "stringify");
    try {
      const long = "x".repeat(1_000_000);
      settler.add(all[0]!, succeed(Array.from({ length: 300 }, () => long)));
      settler.add(
        all[1]!,
        succeed({ at: new Date(0), rows: Array.from({ length: 300 }, () => long) }),
      );
      settler.add(all[2]!, succeed("é".repeat(2_000_000)));
      settler.add(all[3]!, succeed(long));
      // Only the two whose length is not seen before: one of them is counted afterwards.
      const lengths = stringify.mock.results.map(({ value }) => String(value).length);
      expect(lengths.filter((length) => length > 1_000)).toEqual([2_000_002, 1_000_002]);
    } finally {
      stringify.mockRestore();
    }
    await settler.idle();
    const rows = await Promise.all(all.map(async ({ id }) => await row(bench, id)));
    expect(rows.map(({ state, result }) => [state, typeof result])).toEqual([
      ["succeeded", "object"],
      ["succeeded", "object"],
      ["succeeded", "object"],
      ["succeeded", "string"],
    ]);
    expect(told.trouble).toHaveLength(3);
    for (const message of told.trouble)
      expect(message).toMatch(/is not stored: .*at most 4000000 bytes.*or raise resultLimit\./);
  });

  it("a day without a partition: it makes one", async () => {
    const parts = await bench.sql<{ name: string }>(
      "select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass",
      [`${bench.schema}.done`],
    );
    for (const { name } of parts) await bench.sql(`drop table ${name}`);
    const [one] = await attempts(1);
    settler.add(one!, succeed("kept"));
    await settler.idle();
    expect(await row(bench, one!.id)).toMatchObject({ state: "succeeded", result: "kept" });
  });

  it("an attempt that was handed out anew meanwhile is settled under its newer fence", async () => {
    const [one] = await attempts(1);
    await elsewhere(one!);
    const { claim } = one!;
    one!.claim = { ...claim, attempt: claim.attempt + 1, worker: claim.worker + 1_000 };
    settler.add(one!, succeed("adopted"));
    await settler.idle();
    expect(await row(bench, formatJobId(1, claim.id))).toMatchObject({ state: "succeeded" });
  });

  it("abandoned, it gives up what is not written", async () => {
    const [one] = await attempts(1);
    proxy.setMode("reset");
    settler.add(one!, succeed(1));
    settler.abandon();
    await settler.idle();
    expect(told).toEqual({ settled: [], lost: [], trouble: [] });
    expect(await states([one!])).toEqual(["running"]);
  });

  it("goes on though whoever it tells of trouble throws, and takes large results in parts", async () => {
    const deaf = new Settler(
      database.open("settle"),
      {
        settled: ({ id }) => told.settled.push(id),
        lost: ({ id }) => told.lost.push(id),
        trouble: () => {
          throw new Error("a logger's own fault");
        },
        failing: () => {},
      },
      4_000_000,
    );
    const all = await attempts(4);
    deaf.add(all[0]!, succeed(1n));
    for (const one of all.slice(1)) deaf.add(one, succeed("x".repeat(2_500_000)));
    await deaf.idle();
    expect(told.settled).toHaveLength(4);
    // The first large one goes with what is small, the others each alone.
    const [{ n }] = (await bench.sql(
      "select count(distinct finished_at)::int as n from jobs.done",
    )) as [{ n: number }];
    expect(n).toBe(3);
  });
});
