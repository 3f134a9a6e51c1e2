import { Bench } from "../support/harness.js";
import { Hands, from } from "../support/hands.js";
import { PARKED, QUARANTINED } from "../../libs/jobs/src/store/queues/lanes.js";

// What a claim takes, in which order, and what it leaves alone.

let bench: Bench;
let hands: Hands;
let high: Hands;
let worker: number;
let other: number;
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  high = await Hands.open(bench, "default", "work", 10);
  [worker, other] = [await hands.worker(1), await hands.worker(2)];
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.job")));

const idsOf = (claims: { id: string }[]) => claims.map(({ id }) => id);

describe("a claim", () => {
  it("takes jobs by lane, then by time, then by id", async () => {
    const late = await hands.addMany(2, { at: new Date(Date.now() - 1_000) });
    const early = await hands.addMany(3, { at: new Date(Date.now() - 2_000) });
    const first = await high.addMany(2, { at: new Date(Date.now() - 500) });
    const lanes = [from(high.lane), from(hands.lane)];
    expect(idsOf(await hands.claim(worker, { lanes }))).toEqual([...first, ...early, ...late]);
  });

  it("takes the same ones first when there is room for few", async () => {
    const late = await hands.addMany(2, { at: new Date(Date.now() - 1_000) });
    const early = await hands.addMany(2, { at: new Date(Date.now() - 2_000) });
    const first = await high.addMany(2);
    const lanes = [from(high.lane), from(hands.lane)];
    expect(idsOf(await hands.claim(worker, { lanes, room: 3 }))).toEqual([...first, early[0]]);
    expect(idsOf(await hands.claim(worker, { lanes, room: 2 }))).toEqual([early[1], late[0]]);
  });

  it("keeps to the room of each lane", async () => {
    await hands.addMany(5);
    await high.addMany(5);
    const lanes = [from(high.lane, { room: 2 }), from(hands.lane, { room: 3 })];
    const claims = await hands.claim(worker, { lanes });
    expect(claims.map(({ lane }) => lane)).toEqual(
      [2, 3].flatMap((n, i) => Array.from({ length: n }, () => [high, hands][i]!.lane)),
    );
  });

  it("tells what it took", async () => {
    const at = new Date(Date.now() - 60_000);
    const id = await hands.add({ at, attempts: 4, timeoutMs: 2_500, payload: '{"a": [1]}' });
    const [claim] = await hands.claim(worker);
    expect(claim).toEqual({
      id,
      queueId: hands.queueId,
      lane: hands.lane,
      kind: "work",
      attempt: 1,
      worker,
      failures: 0,
      crashes: 0,
      attempts: 4,
      timeoutMs: 2_500,
      runAt: expect.stringContaining(at.toISOString().slice(0, 19).replace("T", " ")),
      payload: '{"a": [1]}',
      headers: null,
      rescued: false,
      cancelled: false,
    });
    const [row] = await bench.sql(
      "select lease_until - claimed_at as lease, claimed_at = (select max(claimed_at) from jobs.job) as now from jobs.job",
    );
    expect(row).toMatchObject({ lease: { minutes: 1 }, now: true });
  });

  it("yields nothing for another version of the queue", async () => {
    await hands.add();
    const version = await hands.version();
    for (const wrong of [version - 1, version + 1])
      expect(await hands.claim(worker, { version: wrong })).toEqual([]);
    await bench.sql("update jobs.queue set version = version + 1");
    expect(await hands.claim(worker, { version })).toEqual([]);
    expect(await hands.claim(worker, { version: version + 1 })).toHaveLength(1);
  });

  it("leaves future jobs, lanes that were not asked for, and lanes set aside", async () => {
    const foreign = await Hands.open(bench, "default", "foreign");
    const elsewhere = await Hands.open(bench, "elsewhere");
    await hands.add({ delayMs: 60_000 });
    await foreign.add();
    await elsewhere.add();
    for (const aside of [PARKED, QUARANTINED]) await hands.add({ lane: hands.lane + aside });
    expect(await hands.claim(worker)).toEqual([]);
    const lanes = [from(hands.lane + QUARANTINED)];
    expect(await hands.claim(worker, { lanes })).toHaveLength(1);
  });

  it("takes an expired lease only when it may, and counts the crash", async () => {
    const id = await hands.add();
    await hands.claim(worker);
    expect(await hands.claim(other, { takeOver: true })).toEqual([]);
    await hands.expire(id);
    expect(await hands.claim(other)).toEqual([]);
    for (const crashes of [1, 2, 3]) {
      const [claim] = await hands.claim(other, { takeOver: true });
      expect(claim).toMatchObject({
        id,
        attempt: crashes + 1,
        crashes,
        rescued: true,
        failures: 0,
      });
      await hands.expire(id);
    }
  });

  it("takes over no more when it arrives late, by the server's clock", async () => {
    const [expired] = await hands.addMany(1);
    await hands.claim(worker);
    await hands.expire(expired!);
    const due = await hands.add();
    const [{ now }] = (await bench.sql<{ now: Date }>("select now()")) as [{ now: Date }];
    const late = await hands.claim(other, { takeOver: new Date(now.getTime() - 1) });
    expect(idsOf(late)).toEqual([due]);
    const punctual = await hands.claim(other, { takeOver: new Date(now.getTime() + 60_000) });
    expect(idsOf(punctual)).toEqual([expired]);
  });

  it("starts at the cursor, before it when it looks back", async () => {
    const ids = await hands.addMany(4);
    for (const [n, id] of ids.entries())
      await bench.sql(
        "update jobs.job set run_at = '2020-01-01T00:00:00.000001Z'::timestamptz + $1 * interval '400 ms' where id = $2",
        [n, id],
      );
    const at = "2020-01-01 00:00:00.800001+00";
    const scan = async (backMs: number, id = "0", untilMs?: number) => {
      const slice = { ...from(hands.lane, { at, id, backMs }), untilMs };
      const claims = await hands.claim(worker, { lanes: [slice] });
      await bench.sql("update jobs.job set lease_until = null");
      return idsOf(claims);
    };
    expect(await scan(0)).toEqual(ids.slice(2));
    expect(await scan(0, ids[2])).toEqual(ids.slice(3));
    expect(await scan(500, ids[2])).toEqual(ids.slice(1));
    expect(await scan(1_000)).toEqual(ids);
    // A slice of the past, up to a place behind the cursor, and back for a thousand years.
    expect(await scan(1_000, "0", 0)).toEqual(ids.slice(0, 3));
    expect(await scan(1_000, "0", 400)).toEqual(ids.slice(0, 2));
    expect(await scan(500, "0", 400)).toEqual(ids.slice(1, 2));
    expect(await scan(3.156e13, "0", 500)).toEqual(ids.slice(0, 1));
  });

  it("gives each job to one of many claimers", async () => {
    const many = await hands.addMany(3_000);
    const claimers = await Promise.all(
      Array.from({ length: 6 }, async (_, n) => ({
        worker: await hands.worker(n),
        session: bench.session("claim"),
      })),
    );
    const version = await hands.version();
    const taken = await Promise.all(
      claimers.map(async (who) => {
        const mine: string[] = [];
        for (;;) {
          const claims = await hands.claim(who.worker, { ...who, version, room: 37 });
          mine.push(...idsOf(claims));
          const [left] = await bench.sql<{ n: number }>(
            "select count(*)::int as n from jobs.job where lease_until is null",
          );
          if (left!.n === 0) return mine;
        }
      }),
    );
    expect(taken.flat().sort()).toEqual(many.toSorted());
    const attempts = await bench.sql("select distinct attempt from jobs.job");
    expect(attempts).toEqual([{ attempt: 1 }]);
  });
});
