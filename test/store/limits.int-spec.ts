import type { Session } from "../../libs/jobs/src/pg/session.js";
import { limitedOf, rulesOf, setRules } from "../../libs/jobs/src/store/limits/rules.js";
import { gates, sweep } from "../../libs/jobs/src/store/limits/sweep.js";
import { limitViews } from "../../libs/jobs/src/store/limits/views.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { fenceValues } from "../../libs/jobs/src/store/transitions/fence.js";
import { renewLeases } from "../../libs/jobs/src/store/transitions/renew.js";
import { register, retire } from "../../libs/jobs/src/store/workers/workers.js";
import { Hands, from } from "../support/hands.js";
import { Bench } from "../support/harness.js";
import { Limited, idsOf, rule } from "../support/limited.js";

// Each statement of limits by hand: what a claim takes, what it leaves, what it sets aside and who fetches it.

let bench: Bench;
let limited: Limited;
let hands: Hands;
let session: Session;
let worker: number;
beforeEach(async () => {
  bench = await Bench.open();
  limited = await Limited.open(bench);
  ({ hands, session, worker } = limited);
});
afterEach(async () => await bench.close());

const limit: Limited["limit"] = async (...of) => await limited.limit(...of);
const take: Limited["take"] = async (...of) => await limited.take(...of);
const done: Limited["done"] = async (...of) => await limited.done(...of);
const tenant: Limited["tenant"] = async (...of) => await limited.tenant(...of);
const slots = async () =>
  Number((await bench.sql<{ n: string }>("select count(*) n from jobs.slot"))[0]!.n);

describe("at most so many of a queue", () => {
  beforeEach(async () => await limit([{ max: 3 }]));

  it("are claimed, in order; the next ones when their slots are free", async () => {
    const all = await hands.addMany(8);
    const first = await take();
    expect(idsOf(first)).toEqual(all.slice(0, 3));
    expect(first).toMatchObject({ blocked: true, parked: 0, strays: 0 });
    expect(first.waitMs).toBeUndefined();
    expect(await take()).toMatchObject({ claims: [], blocked: true });
    // Named though they are not over: the rows decide.
    expect(await take({ over: idsOf(first) })).toMatchObject({ claims: [], blocked: true });
    await done(first.claims.slice(0, 2));
    // Over, and nobody has said so.
    expect(idsOf(await take())).toEqual([]);
    const next = await take({ over: idsOf(first) });
    expect(idsOf(next)).toEqual(all.slice(3, 5));
    expect(await slots()).toBe(3);
  });

  it("also of several lanes and kinds, and of jobs that are set aside alone", async () => {
    const other = await Hands.open(bench, "default", "other", 5);
    await hands.addMany(3);
    await other.addMany(3);
    const suspect = await hands.add({ lane: hands.lane + 20_000 });
    const lanes = [from(other.lane), from(hands.lane), from(hands.lane + 20_000)];
    const found = await take({ lanes });
    expect(found.claims.map(({ kind }) => kind)).toEqual(["other", "other", "other"]);
    await done(found.claims);
    const alone = await take({ lanes: [from(hands.lane + 20_000)], over: idsOf(found) });
    expect(idsOf(alone)).toEqual([suspect]);
    expect((await take({ lanes })).claims).toHaveLength(2);
  });

  it("a retried attempt frees its slot and takes another one", async () => {
    const [id] = await hands.addMany(1);
    const { claims } = await take();
    await retry(hands.session, hands.queueId, worker, [
      { id: id!, attempt: 1, delayMs: 0, error: "{}" },
    ]);
    const again = await take({ over: [id!] });
    expect(claims[0]).toMatchObject({ id, attempt: 1 });
    expect(again.claims[0]).toMatchObject({ id, attempt: 2 });
    expect(await slots()).toBe(1);
  });

  it("a version that has passed yields nothing and writes nothing", async () => {
    await hands.addMany(1);
    expect(await take({ version: 1 })).toMatchObject({ refused: "closed", claims: [] });
    expect(await slots()).toBe(0);
  });

  it("one claim at a time: the other one is told, and waits for nothing", async () => {
    await hands.addMany(5);
    const client = await bench.client();
    await client.query("begin");
    await client.query(`select pg_advisory_xact_lock(${bench.schema}.lock_limits($1))`, [
      hands.queueId,
    ]);
    expect(await take()).toMatchObject({ refused: "busy", claims: [] });
    await client.query("commit");
    expect((await take()).claims).toHaveLength(3);
  });

  it("many claims at once take no more in all", async () => {
    await hands.addMany(50);
    const sessions = Array.from({ length: 6 }, () => bench.session("claim"));
    let all = 0;
    for (let round = 0; round < 5; round++) {
      const found = await Promise.all(sessions.map(async (on) => await take({ on, room: 2 })));
      all += found.reduce((sum, { claims }) => sum + claims.length, 0);
    }
    expect(all).toBe(3);
  });

  it("a row that somebody has locked is left, and does not hold the claim up", async () => {
    const [first, second] = await hands.addMany(2);
    const client = await bench.client();
    await client.query("begin");
    await client.query(`select from ${bench.schema}.job where id = $1 for update`, [first]);
    expect(idsOf(await take())).toEqual([second]);
    expect(await slots()).toBe(1);
    await client.query("rollback");
    expect(idsOf(await take())).toEqual([first]);
  });

  it("what a held snapshot keeps of slots is not walked, and the count is right", async () => {
    let since = "0";
    for (let round = 0; round < 5; round++) {
      await hands.addMany(3);
      const found = await take({ since });
      expect(found.claims).toHaveLength(3);
      expect(Number(found.since)).toBeGreaterThanOrEqual(Number(since));
      ({ since } = found);
      expect((await take({ since })).claims).toEqual([]);
      await done(found.claims);
      ({ since } = await take({ since, over: idsOf(found) }));
    }
    const [row] = await bench.sql<{ last: string }>(
      "select last_value as last from jobs.slot_order",
    );
    expect(Number(since)).toBeGreaterThan(Number(row!.last) - 4);
  });
});

describe("the first limit of a queue that is at work", () => {
  const first = async () => {
    const front = bench.session();
    const said = { kind: "", rules: [rule({ max: 2 })] };
    expect(await front.transaction((run) => setRules({ run }, hands.queueId, said))).toBe(true);
    return front;
  };

  it("lets nothing start until claims that do not know it are over, then counts what runs", async () => {
    const at = { host: "h", pid: 7, slots: 1 };
    await register(session, { ...at, kinds: { default: ["work"] } });
    const all = await hands.addMany(6);
    const before = await hands.version();
    await hands.claim(worker, { room: 1 });
    const front = await first();
    expect(await limitedOf(front, [hands.queueId])).toEqual(new Set([hands.queueId]));
    // Claims of workers that have not heard of it yield nothing.
    expect(await hands.claim(worker, { version: before })).toEqual([]);
    expect(await sweep(front, hands.queueId)).toBe(false);
    expect(await take()).toMatchObject({ refused: "closed" });
    const [gate] = await bench.sql<{ ms: string }>(
      "select extract(epoch from opens_at - now()) * 1000 as ms from jobs.limit_gate",
    );
    expect(Number(gate!.ms)).toBeGreaterThan(4_000);
    await bench.sql("update jobs.limit_gate set opens_at = now()");
    expect(await sweep(front, hands.queueId)).toBe(true);
    expect(idsOf(await take())).toEqual([all[1]]);
  });

  it("of a queue that nobody serves holds at once, and counts what runs all the same", async () => {
    const all = await hands.addMany(6);
    const stopped = await register(session, {
      host: "h",
      pid: 7,
      slots: 1,
      kinds: { default: [] },
    });
    await retire(session, stopped, 0);
    await register(session, { host: "h", pid: 8, slots: 1, kinds: { other: ["work"] } });
    await hands.claim(worker, { room: 1 });
    expect(await sweep(await first(), hands.queueId)).toBe(true);
    expect(idsOf(await take())).toEqual([all[1]]);
  });

  it("of a queue without a job holds at once", async () => {
    const front = await first();
    expect(await sweep(front, hands.queueId)).toBe(true);
    await hands.addMany(3);
    expect((await take()).claims).toHaveLength(2);
  });

  it("another one counts what runs under the first", async () => {
    await limit([{ max: 5 }]);
    await tenant(4, "a");
    await take({ room: 3 });
    await limit([{ max: 5 }, { keyPath: "tenant", max: 3 }]);
    expect(await take()).toMatchObject({ claims: [], parked: 1 });
    expect(await slots()).toBe(6);
  });

  it("said again changes nothing; other numbers hold for the next claim", async () => {
    await limit([{ max: 2 }]);
    const version = await hands.version();
    await limit([{ max: 2 }]);
    expect(await hands.version()).toBe(version);
    await hands.addMany(9);
    expect((await take()).claims).toHaveLength(2);
    await limit([{ max: 5 }]);
    expect(await hands.version()).toBe(version + 1);
    expect((await take()).claims).toHaveLength(3);
    await limit([{ max: 1 }]);
    expect(await take()).toMatchObject({ claims: [], blocked: true });
  });
});

describe("at most so many of a kind", () => {
  it("leave the other kinds alone, and are not walked when they are at it", async () => {
    const other = await Hands.open(bench, "default", "other");
    await limit([{ max: 1 }], "work");
    const mine = await hands.addMany(3);
    const others = await other.addMany(4);
    const lanes = [from(hands.lane), from(other.lane)];
    expect(idsOf(await take({ lanes }))).toEqual([mine[0], ...others]);
    expect(await take({ lanes })).toMatchObject({ claims: [], blocked: true, parked: 0 });
    expect(await rulesOf(session, [hands.queueId])).toMatchObject([{ kind: "work", max: 1 }]);
  });
});

describe("at most so many for each key", () => {
  beforeEach(async () => await limit([{ keyPath: "tenant", max: 2 }]));

  it("those of a full key are set aside, once, and others go on", async () => {
    const hot = await tenant(5, "hot");
    const cold = await tenant(3, "cold");
    const first = await take();
    expect(idsOf(first)).toEqual([hot[0], hot[1], cold[0], cold[1]]);
    expect(first.parked).toBe(4);
    expect(await take()).toMatchObject({ claims: [], parked: 0, blocked: false });
    const [lanes] = await bench.sql<{ lanes: number[] }>(
      "select array_agg(distinct lane) as lanes from jobs.job where lease_until is null",
    );
    expect(lanes!.lanes).toEqual([hands.lane + 10_000]);
    expect(await limitViews(session, hands.queueId)).toMatchObject([
      { kind: null, key: "tenant", limit: 2, running: 4, waiting: 4 },
    ]);
  });

  it("the next one of a key starts with the claim that frees its slot, oldest and highest first", async () => {
    const urgent = await Hands.open(bench, "default", "work", 9);
    const hot = await tenant(4, "hot");
    const { claims } = await take();
    const [late] = await urgent.addMany(1, { payload: '{"tenant":"hot"}' });
    const lanes = [from(urgent.lane), from(hands.lane)];
    expect((await take({ lanes })).parked).toBe(1);
    await done(claims.slice(0, 1));
    const next = await take({ lanes, over: [hot[0]!] });
    expect(idsOf(next)).toEqual([late]);
    expect(next.picked).toEqual(new Set([late]));
    expect(next.claims[0]!.lane).toBe(urgent.lane);
    await done([...claims.slice(1), ...next.claims]);
    expect(idsOf(await take({ lanes, over: [hot[1]!, late!] })).sort()).toEqual(hot.slice(2));
    expect(await bench.sql("select from jobs.parked")).toEqual([]);
  });

  it("one whose kind is not asked for goes back to where others find it", async () => {
    const other = await Hands.open(bench, "default", "other");
    const hot = await tenant(2, "hot");
    const { claims } = await take();
    const [waits] = await other.addMany(1, { payload: '{"tenant":"hot"}' });
    expect((await take({ lanes: [from(other.lane)] })).parked).toBe(1);
    await done(claims);
    expect(await take({ over: hot })).toMatchObject({ claims: [], strays: 1 });
    expect(idsOf(await take({ lanes: [from(other.lane)] }))).toEqual([waits]);
  });

  it("jobs without the key, and keys of any JSON", async () => {
    await hands.addMany(3, { payload: "[1]" });
    await hands.addMany(3, { payload: '{"tenant":null}' });
    await hands.addMany(3, { payload: '{"tenant":""}' });
    expect((await take()).claims).toHaveLength(9);
    for (const odd of [
      7,
      true,
      { a: [1] },
      "constructor",
      "__proto__",
      "a'b\"c\\",
      "x".repeat(5_000),
    ])
      await tenant(3, odd);
    const found = await take();
    expect(found.claims).toHaveLength(14);
    expect(found.parked).toBe(7);
  });

  it("a slot whose worker died is free with its lease; the worker can not take it back", async () => {
    const hot = await tenant(3, "hot");
    const { claims } = await take();
    await hands.expire(...hot);
    expect((await take({ takeOverUntil: "-infinity" })).claims).toEqual([]);
    const front = bench.session();
    expect(await sweep(front, hands.queueId)).toBe(true);
    // It thaws: its lease ran out, and its slot is somebody else's.
    const fences = fenceValues(hands.queueId, worker, claims);
    expect(await front.run(renewLeases, [...fences, 60_000])).toEqual([]);
    expect((await done(claims)).size).toBe(0);
    const second = await hands.worker(2);
    const taken = await take({ worker: second });
    expect(new Set(idsOf(taken))).toEqual(new Set([hot[0], hot[1]]));
    expect(taken.claims.every(({ rescued, crashes }) => rescued && crashes === 1)).toBe(true);
    expect(await slots()).toBe(2);
  });

  it("one that renews in time keeps its slot", async () => {
    await tenant(3, "hot");
    const { claims } = await take();
    expect(await sweep(bench.session(), hands.queueId)).toBe(false);
    expect(await slots()).toBe(2);
    expect((await done(claims)).size).toBe(2);
  });

  it("who deletes those that run does not strand those that are parked", async () => {
    const hot = await tenant(4, "hot");
    expect((await take()).parked).toBe(2);
    await bench.sql("delete from jobs.job where id = any($1)", [hot.slice(0, 2)]);
    expect((await take()).claims).toEqual([]);
    expect(await sweep(bench.session(), hands.queueId)).toBe(true);
    expect(idsOf(await take())).toEqual(hot.slice(2));
  });

  it("rows of parked jobs that are gone are let go", async () => {
    const hot = await tenant(3, "hot");
    const { claims } = await take();
    await bench.sql("delete from jobs.job where id = $1", [hot[2]]);
    await done(claims);
    expect(await take({ over: hot })).toMatchObject({ claims: [], strays: 0 });
    await sweep(bench.session(), hands.queueId);
    expect(await bench.sql("select from jobs.parked")).toEqual([]);
  });

  it("many that were cancelled while they were parked do not stand in the way of the next", async () => {
    await tenant(2, "hot");
    const { claims } = await take();
    const parked = await tenant(30, "hot");
    expect((await take()).parked).toBe(30);
    await bench.sql("delete from jobs.job where id = any($1)", [parked.slice(0, 29)]);
    await done(claims);
    expect(idsOf(await take({ over: claims.map(({ id }) => id) }))).toEqual([parked[29]]);
    await sweep(bench.session(), hands.queueId, { forget: true });
    expect(await bench.sql("select from jobs.parked")).toEqual([]);
  });

  it("one that is put off while it is parked does not start before its time", async () => {
    const hot = await tenant(3, "hot");
    const { claims } = await take();
    await bench.sql("update jobs.job set run_at = now() + interval '1 h' where id = $1", [hot[2]]);
    await done(claims);
    expect(await take({ over: hot })).toMatchObject({ claims: [], strays: 1 });
    await bench.sql("update jobs.job set run_at = now() - interval '1 s' where id = $1", [hot[2]]);
    expect(idsOf(await take())).toEqual([hot[2]]);
  });

  it("looks no further than it has room: who comes later is not set aside for nothing", async () => {
    const hot = await tenant(6, "hot");
    expect(await take({ room: 1 })).toMatchObject({ claims: [{ id: hot[0] }], parked: 0 });
    expect(await take({ room: 1 })).toMatchObject({ claims: [{ id: hot[1] }], parked: 0 });
    expect(await take({ room: 1, depth: 2 })).toMatchObject({ claims: [], parked: 2 });
    expect(await take({ room: 1, depth: 9 })).toMatchObject({ claims: [], parked: 2 });
  });

  it("a full one does not hide the lanes behind it", async () => {
    const low = await Hands.open(bench, "default", "low", -5);
    await tenant(50, "hot");
    const others = await low.addMany(3);
    const lanes = [from(hands.lane), from(low.lane)];
    const { claims } = await take({ lanes, room: 5, depth: 5 });
    expect(claims.map(({ kind }) => kind).filter((kind) => kind === "low")).toHaveLength(3);
    expect(others).toHaveLength(3);
  });

  it("are all let go when the limit is taken away, and nothing of it stays", async () => {
    await tenant(6, "hot");
    await take();
    const front = bench.session();
    await front.transaction((run) => setRules({ run }, hands.queueId, { kind: "", rules: [] }));
    expect(await limitedOf(front, [hands.queueId])).toEqual(new Set());
    expect(await gates(front)).toEqual([hands.queueId]);
    expect(await sweep(front, hands.queueId)).toBe(true);
    expect(await gates(front)).toEqual([]);
    expect(await hands.claim(worker)).toHaveLength(4);
    for (const table of ["slot", "parked", "bucket", "limit_rule"])
      expect(await bench.sql(`select from jobs.${table}`)).toEqual([]);
  });

  it("with many keys: each sweep goes through all of them", async () => {
    for (let n = 0; n < 30; n++) await tenant(3, `t${n}`);
    const { claims } = await take({ room: 100, depth: 200 });
    expect(claims).toHaveLength(60);
    await done(claims);
    expect(await sweep(bench.session(), hands.queueId, { keys: 7 })).toBe(true);
    expect((await take()).claims).toHaveLength(30);
  });
});

describe("several at once", () => {
  it("of the queue, a kind and two keys: none is exceeded, none keeps another from its jobs", async () => {
    await limit([{ max: 6 }, { keyPath: "tenant", max: 3 }]);
    await limit([{ max: 5 }, { keyPath: "user.id", max: 4 }], "work");
    await tenant(5, "a");
    await tenant(5, "b");
    const first = await take();
    // Of one user four, of one tenant three.
    expect(first.claims.map(({ payload }) => JSON.parse(payload).tenant as string)).toEqual([
      "a",
      "a",
      "a",
      "b",
    ]);
    const counts = await limitViews(session, hands.queueId);
    expect(counts.map(({ kind, key, running }) => [kind, key, running])).toEqual([
      [null, null, 4],
      [null, "tenant", 4],
      ["work", null, 4],
      ["work", "user.id", 4],
    ]);
    await done(first.claims);
    let left = 6;
    for (let over = idsOf(first); left > 0;) {
      const next = await take({ over });
      expect(next.claims.length).toBeGreaterThan(0);
      expect(next.claims.length).toBeLessThanOrEqual(4);
      await done(next.claims);
      left -= next.claims.length;
      over = idsOf(next);
    }
  });
});
