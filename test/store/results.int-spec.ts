import { outcomes } from "../../libs/jobs/src/store/reads/outcomes.js";
import {
  answeredChannel,
  hearAnswered,
  sayAnswered,
} from "../../libs/jobs/src/store/queues/answered.js";
import { hearWake } from "../../libs/jobs/src/store/queues/wake.js";
import { markAwaited } from "../../libs/jobs/src/store/transitions/await.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { cancel, cancelHeld } from "../../libs/jobs/src/store/transitions/cancel.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import type { Writes } from "../../libs/jobs/src/store/transitions/noted.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { skip } from "../../libs/jobs/src/store/transitions/skip.js";
import { snooze } from "../../libs/jobs/src/store/transitions/snooze.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { explaining } from "../support/plans.js";

let bench: Bench;
let hands: Hands;
beforeEach(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
});
afterEach(async () => await bench.close());

const sought = (ids: readonly string[]) =>
  ids.map((number) => ({ queueId: hands.queueId, number }));
const mark = async (...ids: string[]) => await markAwaited(hands.session, sought(ids));
const look = async (...ids: string[]) => await outcomes(hands.session, sought(ids), true);

describe("the mark", () => {
  it("is set once, on unfinished jobs only, within their page and in no index", async () => {
    const ids = await hands.addMany(3);
    const worker = await hands.worker();
    await hands.claim(worker, { room: 1 });
    const [{ before }] = (await bench.sql<{ before: string }>(
      "select string_agg(i::text, ' ') as before from pg_indexes i where schemaname = $1 and tablename = 'job'",
      [bench.schema],
    )) as [{ before: string }];
    expect(before).not.toContain("awaited");
    expect(await mark(...ids, "999")).toEqual(new Set(ids));
    expect([...(await mark(...ids))]).toEqual([]);
    const pages = await bench.sql<{ page: string }>(
      "select distinct (ctid::text::point)[0] as page from jobs.job",
    );
    expect(pages).toHaveLength(1);
    expect((await look(...ids)).map(({ awaited, state }) => [awaited, state])).toEqual([
      [true, "running"],
      [true, "queued"],
      [true, "queued"],
    ]);
  });

  it("leaves out what somebody has locked, at once", async () => {
    const [locked, free] = await hands.addMany(2);
    const client = await bench.client();
    await client.query(`begin; select from ${bench.schema}.job where id = ${locked} for update`);
    expect([...(await mark(locked!, free!))]).toEqual([free]);
    await client.query("rollback");
    client.release();
    expect([...(await mark(locked!, free!))]).toEqual([locked]);
  });

  it("outlasts claim, retry, snooze and hand-back, which tell nobody", async () => {
    const id = await hands.add();
    const worker = await hands.worker();
    await mark(id);
    const puts = [
      (attempt: number) =>
        retry(
          hands.session,
          hands.queueId,
          worker,
          [{ id, attempt, delayMs: 0, error: "{}" }],
          writes,
        ),
      (attempt: number) =>
        snooze(hands.session, hands.queueId, worker, [{ id, attempt, delayMs: 0 }], writes),
      (attempt: number) =>
        handBack(
          hands.session,
          hands.queueId,
          worker,
          [{ id, attempt, started: true, quarantine: false }],
          writes,
        ),
    ];
    const told: string[] = [];
    const writes: Writes = { answered: (ids) => told.push(...ids) };
    for (const put of puts) {
      const [claimed] = await hands.claim(worker);
      expect([...(await put(claimed!.attempt))]).toEqual([id]);
    }
    expect(told).toEqual([]);
    const [claimed] = await hands.claim(worker);
    await succeed(
      hands.session,
      hands.queueId,
      worker,
      [{ id, attempt: claimed!.attempt, result: "1" }],
      writes,
    );
    expect(told).toEqual([id]);
  });
});

describe("a settle", () => {
  const error = JSON.stringify({ name: "Error", message: "no" });
  const ends: Record<string, (worker: number, ids: string[], writes: Writes) => Promise<unknown>> =
    {
      succeed: (worker, ids, writes) =>
        succeed(
          hands.session,
          hands.queueId,
          worker,
          ids.map((id) => ({ id, attempt: 1, result: "1" })),
          writes,
        ),
      "succeed, with its history": (worker, ids, writes) =>
        succeed(
          hands.session,
          hands.queueId,
          worker,
          ids.map((id) => ({ id, attempt: 1, result: "1" })),
          {
            ...writes,
            history: true,
            full: true,
          },
        ),
      "succeed, not kept": (worker, ids, writes) =>
        succeed(
          hands.session,
          hands.queueId,
          worker,
          ids.map((id) => ({ id, attempt: 1, result: "1" })),
          {
            ...writes,
            keep: false,
          },
        ),
      skip: (worker, ids, writes) =>
        skip(
          hands.session,
          hands.queueId,
          worker,
          ids.map((id) => ({ id, attempt: 1, result: "{}" })),
          writes,
        ),
      bury: (worker, ids, writes) =>
        bury(
          hands.session,
          hands.queueId,
          worker,
          ids.map((id) => ({ id, attempt: 1, error, reason: "buried", failed: false })),
          writes,
        ),
      cancel: async (worker, ids, writes) => {
        await bench.sql("update jobs.job set cancel_at = now()");
        return await cancelHeld(
          hands.session,
          hands.queueId,
          worker,
          ids.map((id) => ({ id, attempt: 1, error: null })),
          writes,
        );
      },
    };

  it.each(Object.keys(ends))("says which of its jobs were awaited: %s", async (name) => {
    const ids = await hands.addMany(5);
    const worker = await hands.worker();
    await hands.claim(worker);
    const told: string[] = [];
    const calls: unknown[] = [];
    const writes: Writes = { answered: (some) => (calls.push(some), told.push(...some)) };
    await mark(ids[1]!, ids[3]!);
    await ends[name]!(worker, [ids[0]!, ids[2]!], writes);
    expect(calls).toEqual([]);
    await ends[name]!(worker, [ids[1]!, ids[3]!, ids[4]!], writes);
    expect(new Set(told)).toEqual(new Set([ids[1], ids[3]]));
  });

  it("that withdraws a job by a cancel says whether that was awaited", async () => {
    const [one, other] = await hands.addMany(2);
    await mark(one!);
    expect(await cancel(hands.session, hands.queueId, one!)).toMatchObject({ awaited: true });
    expect(await cancel(hands.session, hands.queueId, other!)).toMatchObject({ awaited: false });
  });
});

describe("the look", () => {
  it("finds jobs in each place, with what they left", async () => {
    const ids = await hands.addMany(6);
    const worker = await hands.worker();
    await hands.claim(worker, { room: 4 });
    const settle = [hands.session, hands.queueId, worker] as const;
    await succeed(...settle, [{ id: ids[0]!, attempt: 1, result: '{"a": 1}' }]);
    await skip(...settle, [{ id: ids[1]!, attempt: 1, result: '{"reason": "r"}' }]);
    await bury(...settle, [
      {
        id: ids[2]!,
        attempt: 1,
        error: JSON.stringify({ name: "TypeError", message: "no", stack: "secret" }),
        reason: "buried",
        failed: true,
      },
    ]);
    await cancel(hands.session, hands.queueId, ids[4]!);
    const found = new Map((await look(...ids, "12345")).map((one) => [one.id, one]));
    const of = (place: number) => {
      const { state, told, kind } = found.get(ids[place]!)!;
      return [kind, state, told === null ? null : JSON.parse(told)];
    };
    expect(found.size).toBe(6);
    expect(ids.map((_, place) => of(place))).toEqual([
      ["work", "succeeded", { a: 1 }],
      ["work", "skipped", { reason: "r" }],
      ["work", "dead", { name: "TypeError", message: "no" }],
      ["work", "running", null],
      ["work", "cancelled", null],
      ["work", "queued", null],
    ]);
    expect(await outcomes(hands.session, [{ queueId: 999, number: ids[0]! }], false)).toEqual([]);
  });

  it("walks neither the jobs that wait nor those that have ended", async () => {
    await bench.sql(
      `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
       select 5000000 + i, now(), $1, $2, 'work', '{}' from generate_series(1, 20000) i`,
      [hands.lane, hands.queueId],
    );
    await bench.sql(
      `insert into jobs.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, state, kind)
       select 6000000 + i, now(), now(), 1, $2, 0, $1, 1, 1, 'work' from generate_series(1, 20000) i`,
      [hands.lane, hands.queueId],
    );
    // As a producer sends it: no plans are forced there, and nobody has analysed the tables.
    const { runner, plans } = explaining(bench.session("front"));
    const some = Array.from({ length: 20 }, (_, i) => [
      `${5_000_001 + i * 997}`,
      `${6_000_001 + i * 997}`,
    ]).flat();
    expect(await outcomes(runner, sought(some), true)).toHaveLength(40);
    await markAwaited(runner, sought(some));
    for (const plan of plans) {
      const walked = plan.filter(
        (node) =>
          /^(job|done_\d+)$/.test(node["Relation Name"] ?? "") &&
          (node["Node Type"] === "Seq Scan" || (node["Rows Removed by Filter"] ?? 0) > 0) &&
          node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0) > 100,
      );
      expect(walked).toEqual([]);
    }
    expect(plans).toHaveLength(2);
  });
});

describe("a hint", () => {
  it("takes as many ids as a payload holds, and is no wake-up to anybody", () => {
    const ids = Array.from({ length: 2_000 }, (_, i) => `7-${1_048_577 + i}`);
    const { payload, taken } = sayAnswered(ids);
    expect(Buffer.byteLength(payload)).toBeLessThan(8_000);
    expect(taken).toBeGreaterThan(500);
    expect(hearAnswered(payload)).toEqual(ids.slice(0, taken));
    expect(hearWake(payload)).toEqual({ queueId: Number.NaN, changed: false, behind: false });
    for (const other of ["7", "7!", "7<", ""]) expect(hearAnswered(other)).toEqual([]);
    expect(answeredChannel("x".repeat(63))).toHaveLength(63);
  });
});
