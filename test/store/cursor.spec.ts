import type { Claim } from "../../libs/jobs/src/store/transitions/claim.js";
import { Cursor } from "../../libs/jobs/src/worker/cursor.js";

// Where the next claim starts to scan (rule 1): a hint that must never hide a job for long.

const START = { at: "-infinity", id: "0", backMs: 0 };
const lanes = [{ lane: 3, room: 10 }];
const job = (second: number, id: number, lane = 3) =>
  ({
    lane,
    id: String(id),
    runAt: `2030-01-01 00:00:${String(second).padStart(2, "0")}+00`,
  }) as Claim;
const at = (second: number) => job(second, 0).runAt;

/** Asks and learns as a claimer does; answers what was asked. */
function claim(
  cursor: Cursor,
  now: number,
  { claims = [] as Claim[], full = false, cost = 0.1 } = {},
) {
  const [request] = cursor.requests(lanes, now);
  cursor.learn(claims, full, cost, now);
  return request!;
}

/** Has rescanned at 0, at cost 0.1, and stands behind job 5 at second 10. */
function standing(full = false): Cursor {
  const cursor = new Cursor();
  claim(cursor, 0, { claims: [job(10, 5)], full });
  return cursor;
}

/** How far 20 claims look back, one a ms, each of them dear; some do so all the way. */
const backsOf = (cursor: Cursor, from: number) =>
  Array.from({ length: 20 }, (_, n) => claim(cursor, from + n, { cost: 5 }).backMs);

describe("Cursor", () => {
  it("starts at the beginning, with the lanes and rooms it was asked for", () => {
    const asked = [
      { lane: 3, room: 10 },
      { lane: 1, room: 2 },
    ];
    expect(new Cursor().requests(asked, 0)).toEqual(asked.map((one) => ({ ...one, ...START })));
  });

  it("goes on behind the last job of a full batch", () => {
    expect(claim(standing(true), 10)).toMatchObject({ at: at(10), id: "5", backMs: 0 });
  });

  it("looks back a second after a short one", () => {
    expect(claim(standing(), 10)).toMatchObject({ at: at(10), id: "5", backMs: 1_000 });
  });

  it("halves the look back while it is dear, and widens it again up to a second", () => {
    const cursor = standing();
    const backs = [3, 3, 3, 0.2, 0.2, 0.2, 0.2, 0.2].map(
      (cost, n) => claim(cursor, 10 + n, { cost }).backMs,
    );
    expect(backs).toEqual([1_000, 500, 250, 125, 250, 500, 1_000, 1_000]);
  });

  it("where that is dear, looks back a little, and all the way in a twentieth of the time", () => {
    const cursor = standing();
    const backs: number[] = [];
    let spent = 0;
    const until = 10_000;
    for (let now = 10; now < until; now += 5) {
      const { backMs } = cursor.requests(lanes, now)[0]!;
      if (backMs === 0) {
        cursor.learn([], false, 2, now); // a search, which is cheap here
        continue;
      }
      // The server is busy: even the least look takes its time.
      const cost = 2 + (backMs / 1_000) * 8;
      cursor.learn([], false, cost, now);
      backs.push(backMs);
      if (backMs === 1_000) spent += cost - 2;
    }
    expect(Math.min(...backs)).toBe(16);
    const allTheWay = backs.slice(20).filter((backMs) => backMs === 1_000);
    expect(allTheWay.length).toBeGreaterThan(40);
    expect(spent / until).toBeLessThan(0.055);
    expect(new Set(backs.slice(20))).toEqual(new Set([16, 1_000]));
  });

  it("looks back all the way before what it looks for lies further back, whatever that took", () => {
    const cursor = standing();
    for (let now = 10; now < 20; now++) claim(cursor, now, { cost: 5 });
    const wait = cursor.pendingIn([3], 20)!;
    expect(claim(cursor, 20 + wait, { cost: 400 }).backMs).toBe(1_000);
    claim(cursor, 21 + wait, { cost: 5 });
    expect(cursor.pendingIn([3], 21 + wait)).toBeLessThanOrEqual(250);
  });

  it("says when it would look back all the way, once after the last that did not", () => {
    const cursor = standing();
    expect(cursor.pendingIn([3], 10)).toBeUndefined();
    for (let now = 10; now < 20; now++) claim(cursor, now, { cost: 5 });
    const wait = cursor.pendingIn([3], 20)!;
    expect(wait).toBeGreaterThan(0);
    expect(claim(cursor, 20 + wait - 1).backMs).toBeLessThan(1_000);
    expect(claim(cursor, 20 + wait).backMs).toBe(1_000);
    expect(cursor.pendingIn([3], 20 + wait)).toBeUndefined();
  });

  it("does not call a claim dear that costs what every claim costs", () => {
    const cursor = new Cursor();
    claim(cursor, 0, { cost: 5 });
    for (let now = 1; now < 50; now++) claim(cursor, now, { cost: 5.5 });
    expect(claim(cursor, 50).backMs).toBe(1_000);
  });

  it("looks back as far as jobs come late, and a little further, however dear that is, for a while", () => {
    const cursor = standing();
    for (let now = 10; now < 20; now++) claim(cursor, now, { cost: 5 });
    const wait = cursor.pendingIn([3], 20)!;
    const late = { ...job(10, 4), runAt: "2030-01-01 00:00:09.95+00" };
    claim(cursor, 20 + wait, { cost: 5, claims: [late] });
    expect(new Set(backsOf(cursor, 21 + wait))).toEqual(new Set([75, 1_000]));
    // Nothing has come so late since.
    for (let now = 60; now < 30_000; now += 100) claim(cursor, now + wait, { cost: 5 });
    expect(Math.min(...backsOf(cursor, 30_001 + wait))).toBe(16);
  });

  it("does not look back for what was taken over from a worker that died, nor beyond a second", () => {
    const cursor = standing();
    for (let now = 10; now < 20; now++) claim(cursor, now, { cost: 5 });
    const rescued = { ...job(9, 4), rescued: true };
    claim(cursor, 20, { cost: 5, claims: [rescued, job(8, 3)] });
    expect(Math.min(...backsOf(cursor, 21))).toBe(16);
  });

  it("rescans from the beginning every 500 ms when that is cheap", () => {
    const cursor = standing(true);
    expect(claim(cursor, 499, { full: true })).toMatchObject({ id: "5" });
    expect(claim(cursor, 500, { full: true })).toMatchObject(START);
    expect(claim(cursor, 999, { full: true })).toMatchObject({ id: "5" });
    expect(claim(cursor, 1_000)).toMatchObject(START);
  });

  it.each([
    [10, 500],
    [25, 500],
  ])("after a rescan of %p ms waits %p ms for the next", (cost, wait) => {
    const cursor = new Cursor();
    claim(cursor, 0, { cost, claims: [job(10, 5)], full: true });
    expect(claim(cursor, wait - 1, { full: true }).id).toBe("5");
    expect(claim(cursor, wait, { full: true })).toMatchObject(START);
  });

  it("never moves back over jobs that were found behind it", () => {
    const cursor = standing();
    claim(cursor, 10, { claims: [job(9, 99)] });
    expect(claim(cursor, 20)).toMatchObject({ at: at(10), id: "5" });
    claim(cursor, 30, { claims: [job(10, 4), job(10, 12)] });
    expect(claim(cursor, 40)).toMatchObject({ at: at(10), id: "12" });
  });

  it("compares ids as numbers", () => {
    const cursor = new Cursor();
    claim(cursor, 0, { claims: [job(10, 999), job(10, 1_000)], full: true });
    claim(cursor, 10, { claims: [job(10, 998)], full: true });
    expect(claim(cursor, 20).id).toBe("1000");
  });

  it("is set back by a rescan that returned a full batch", () => {
    const cursor = standing(true);
    claim(cursor, 500, { claims: [job(2, 70), job(3, 71)], full: true });
    expect(claim(cursor, 510)).toMatchObject({ at: at(3), id: "71" });
  });

  it("is not set back by a short rescan", () => {
    const cursor = standing(true);
    claim(cursor, 500, { claims: [job(3, 71)] });
    expect(claim(cursor, 510)).toMatchObject({ at: at(10), id: "5", backMs: 1_000 });
  });

  it("keeps a place for each lane", () => {
    const cursor = new Cursor();
    const both = [...lanes, { lane: 4, room: 1 }];
    cursor.requests(both, 0);
    cursor.learn([job(10, 5), job(20, 6, 4)], true, 0.1, 0);
    expect(cursor.requests(both, 1)).toEqual([
      { lane: 3, room: 10, at: at(10), id: "5", backMs: 0 },
      { lane: 4, room: 1, at: at(20), id: "6", backMs: 0 },
    ]);
  });

  it("starts a lane that it does not know from the beginning", () => {
    const cursor = standing(true);
    expect(cursor.requests([{ lane: 9, room: 1 }], 1)[0]).toMatchObject(START);
  });

  it("rescans when told that something lies behind, as soon as its share of the time allows", () => {
    const cursor = standing(true);
    cursor.rescan(0);
    expect(claim(cursor, 1).at).toBe(at(10));
    expect(claim(cursor, 3)).toMatchObject(START);
    expect(claim(cursor, 6).at).toBe(at(10));
  });

  it("rescans a lane that was left out of the others' rescans as soon as it is asked for again", () => {
    const busy = [{ lane: 4, room: 10 }];
    const cursor = new Cursor();
    cursor.requests([...lanes, ...busy], 0);
    cursor.learn([job(10, 5), job(10, 6, 4)], true, 0.1, 0);
    for (let now = 1; now <= 2_000; now++) {
      cursor.requests(busy, now);
      cursor.learn([], true, 0.1, now);
    }
    const both = cursor.requests([...lanes, ...busy], 2_001);
    expect(both[0]).toMatchObject(START);
    expect(both[1]).toMatchObject({ at: at(10), id: "6" });
  });

  it("begins a minute back when it cannot walk from the beginning and stands nowhere yet", () => {
    const cursor = new Cursor();
    expect(cursor.requests(lanes, 0)[0]).toMatchObject(START);
    cursor.gaveUp(2_000, 2_000);
    const from = cursor.requests(lanes, 2_001)[0]!.at;
    expect(from).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+00$/);
    expect(Date.now() - Date.parse(from)).toBeGreaterThan(59_000);
    expect(Date.now() - Date.parse(from)).toBeLessThan(90_000);
    expect(cursor.position(lanes[0]!.lane).at).toBe(from);
    // Later it searches what is older, beginning there.
    expect(cursor.requests(lanes, 7_001)[0]).toMatchObject({
      at: from,
      backMs: 1_000,
      untilMs: -END,
    });
  });

  it("says when it would go on with what it was asked for, and does so", () => {
    const cursor = new Cursor();
    claim(cursor, 0, { claims: [job(10, 5)], cost: 10 });
    expect(cursor.pendingIn([3], 10)).toBeUndefined();
    cursor.rescan(50);
    expect(claim(cursor, 60).at).toBe(at(10));
    expect(cursor.pendingIn([3], 60)).toBe(140);
    expect(claim(cursor, 200)).toMatchObject(START);
    expect(cursor.pendingIn([3], 200)).toBeUndefined();
  });

  it("what was asked for while it searched is searched for once more", () => {
    const cursor = standing();
    cursor.requests(lanes, 500);
    cursor.rescan(501);
    cursor.learn([], false, 5, 505);
    expect(cursor.pendingIn([3], 505)).toBeDefined();
  });
});

const END = 3.156e13;

describe("a search that is dear", () => {
  /** Behind job 5 at second 10; to walk from the beginning took so long, twice; at 2,000 the second time. */
  function dear(cost = 100): Cursor {
    const cursor = new Cursor();
    claim(cursor, 0, { claims: [job(10, 5)], cost });
    claim(cursor, 5_000, { cost });
    return cursor;
  }
  const first = { lane: 3, room: 10, at: at(10), id: "0", backMs: 1_000, untilMs: -END };

  it("once is nobody's fault", () => {
    const cursor = new Cursor();
    claim(cursor, 0, { claims: [job(10, 5)], cost: 100 });
    expect(cursor.dear).toBe(false);
    expect(claim(cursor, 1_999)).toMatchObject({ id: "5" });
    expect(claim(cursor, 2_000)).toMatchObject(START);
    expect(cursor.dear).toBe(false);
  });

  it("is made in slices, in its share of the time, and claims go on between them", () => {
    const cursor = dear();
    expect(cursor.dear).toBe(true);
    expect(claim(cursor, 9_999)).toMatchObject({ id: "5", backMs: 1_000 });
    // An ordinary claim costs 0.1.
    expect(claim(cursor, 10_000, { cost: 1.1 })).toEqual(first);
    expect(cursor.pendingIn([3], 10_000)).toBeCloseTo(20);
    expect(claim(cursor, 10_019)).toMatchObject({ id: "5" });
    expect(claim(cursor, 10_021)).toMatchObject({ backMs: 17_000, untilMs: 1_000 });
    // However cheap it is: what has come meanwhile does not wait for the past.
    expect(claim(cursor, 20_000)).toMatchObject({ id: "5" });
    expect(claim(cursor, 20_000)).toMatchObject({ untilMs: 17_000 });
  });

  it("comes sooner when it is asked for", () => {
    const cursor = dear();
    claim(cursor, 5_001);
    cursor.rescan(5_010);
    expect(cursor.requests(lanes, 5_011)[0]).toHaveProperty("untilMs");
  });

  it("walks a slice again that has brought as much as it could take, after a claim at the end", () => {
    const cursor = dear();
    claim(cursor, 10_000);
    claim(cursor, 10_001);
    const second = { backMs: 17_000, untilMs: 1_000 };
    expect(claim(cursor, 10_002, { full: true, claims: [job(9, 1)] })).toMatchObject(second);
    // The place of claims is not that of the search.
    expect(claim(cursor, 10_002)).toMatchObject({ at: at(10), id: "5" });
    expect(claim(cursor, 10_002)).toMatchObject(second);
  });

  it("does not walk the first slice again: jobs come to its end all the time", () => {
    const cursor = dear();
    expect(claim(cursor, 10_000, { full: true })).toMatchObject(first);
    claim(cursor, 10_001);
    expect(claim(cursor, 10_002)).toMatchObject({ untilMs: 1_000 });
  });

  it("walks shorter slices after one that was cancelled, and leaves a moment out that cannot be walked", () => {
    const cursor = dear();
    const slices: unknown[] = [];
    for (let now = 10_000; slices.length < 8; now += 5_000) {
      const { backMs, untilMs } = cursor.requests(lanes, now)[0]!;
      slices.push([untilMs, backMs]);
      cursor.gaveUp(2_000, now);
      claim(cursor, now + 1);
    }
    expect(slices).toEqual([
      [-END, 1_000],
      [-END, 250],
      [-END, 62.5],
      [-END, 15.625],
      [-END, 3.90625],
      [-END, 1],
      [1, 2],
      [2, 3],
    ]);
  });

  it("keeps a place for a lane from which nothing was claimed", () => {
    const cursor = new Cursor();
    claim(cursor, 0, { cost: 100 });
    claim(cursor, 5_000, { cost: 100 });
    expect(Date.parse(claim(cursor, 5_001).at)).toBeGreaterThan(Date.now() - 90_000);
  });

  it("concerns lanes for themselves: another one is searched from the beginning", () => {
    const both = [...lanes, { lane: 4, room: 1 }];
    const cursor = dear();
    cursor.requests([both[1]!], 5_001);
    cursor.learn([job(20, 6, 4)], false, 0.1, 5_001);
    claim(cursor, 5_002);
    expect(cursor.requests(both, 10_000)).toEqual([first]);
    cursor.learn([], false, 1.1, 10_001);
    expect(cursor.requests(both, 10_001)).toMatchObject([{ id: "5" }, { lane: 4, ...START }]);
    cursor.learn([], false, 0.1, 10_002);
    expect(cursor.dear).toBe(true);
  });

  /** A past of which each ms holds dead rows for so long as a snapshot was held, and what a walk of it costs. */
  const world = (deadPerMs: number, heldMs: number, wayMs: number) => ({
    walk: ({ backMs, untilMs }: { backMs: number; untilMs: number }) =>
      Math.max(0, Math.min(backMs, heldMs) - Math.max(0, Math.min(untilMs, heldMs))) *
        deadPerMs *
        1e-4 +
      wayMs,
  });

  it.each([
    ["a minute at 50k a second", 50, 60_000, 0.2],
    ["ten minutes at 10k a second", 10, 600_000, 0.2],
    ["two hours at 1k a second", 1, 7_200_000, 0.2],
    ["the same far from the server", 1, 7_200_000, 3],
    ["the same from another continent", 1, 7_200_000, 80],
    ["nothing any more", 0, 0, 0.2],
    ["nothing any more, far from the server", 0, 0, 30],
  ])("gets to the beginning in slices of few ms: %s", (_, deadPerMs, heldMs, wayMs) => {
    const { walk } = world(deadPerMs, heldMs, wayMs);
    const cursor = dear(1_000);
    claim(cursor, 9_000, { cost: wayMs });
    const costs: number[] = [];
    let now = 10_000;
    let reached = 0;
    while (reached < 3e13 && costs.length < 5_000) {
      const request = cursor.requests(lanes, now)[0] as { backMs: number; untilMs?: number };
      const { untilMs } = request;
      if (untilMs === undefined) {
        cursor.learn([], false, wayMs, (now += wayMs));
        now += cursor.pendingIn([3], now) ?? 0;
        continue;
      }
      expect(untilMs).toBeLessThanOrEqual(reached);
      reached = request.backMs;
      const cost = walk({ ...request, untilMs });
      costs.push(cost - wayMs);
      cursor.learn([], false, cost, (now += cost));
    }
    const all = costs.reduce((sum, cost) => sum + cost, 0);
    // A slice sixteen times as long as one of 2 ms, or twice as long as one of 20.
    expect(Math.max(...costs)).toBeLessThanOrEqual(41);
    expect(reached).toBeGreaterThan(3e13);
    expect(now - 10_000).toBeLessThan(22 * all + costs.length * 2.5 * wayMs + 1_000);
    expect(all).toBeLessThan(heldMs * deadPerMs * 1e-4 + 1);
    // Once nothing is in the way it begins at the beginning again.
    expect(cursor.dear).toBe(heldMs > 0);
  });
});
