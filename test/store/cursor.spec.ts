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

  it("does not call a claim dear that costs what every claim costs", () => {
    const cursor = new Cursor();
    claim(cursor, 0, { cost: 5 });
    for (let now = 1; now < 50; now++) claim(cursor, now, { cost: 5.5 });
    expect(claim(cursor, 50).backMs).toBe(1_000);
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
    expect(cursor.requests(lanes, 7_001)[0]).toMatchObject({ at: from, untilMs: 0 });
  });

  it("says when it would go on with what it was asked for, and does so", () => {
    const cursor = new Cursor();
    claim(cursor, 0, { claims: [job(10, 5)], cost: 10 });
    expect(cursor.pendingIn(10)).toBeUndefined();
    cursor.rescan(50);
    expect(claim(cursor, 60).at).toBe(at(10));
    expect(cursor.pendingIn(60)).toBe(140);
    expect(claim(cursor, 200)).toMatchObject(START);
    expect(cursor.pendingIn(200)).toBeUndefined();
  });
});

describe("a search that is dear", () => {
  /** Behind job 5 at second 10; to walk from the beginning took so long. */
  function dear(cost = 100): Cursor {
    const cursor = new Cursor();
    claim(cursor, 0, { claims: [job(10, 5)], cost });
    return cursor;
  }

  it("is made in slices, in its share of the time, and claims go on between them", () => {
    const cursor = dear();
    expect(claim(cursor, 4_999)).toMatchObject({ id: "5", backMs: 1_000 });
    expect(claim(cursor, 5_000, { cost: 1 })).toEqual({
      lane: 3,
      room: 10,
      at: at(10),
      id: "0",
      backMs: 1_000,
      untilMs: 0,
    });
    expect(cursor.pendingIn(5_000)).toBe(20);
    expect(claim(cursor, 5_019)).toMatchObject({ id: "5" });
    expect(claim(cursor, 5_020)).toMatchObject({ backMs: 17_000, untilMs: 1_000 });
  });

  it("comes sooner when it is asked for", () => {
    const cursor = dear();
    cursor.rescan(10);
    expect(cursor.requests(lanes, 1_999)[0]).not.toHaveProperty("untilMs");
    expect(cursor.requests(lanes, 2_000)[0]).toHaveProperty("untilMs");
  });

  it("walks a slice again that has brought as much as it could take, at once", () => {
    const cursor = dear();
    claim(cursor, 5_000, { full: true, claims: [job(9, 1)] });
    expect(claim(cursor, 5_000)).toMatchObject({ backMs: 1_000, untilMs: 0 });
    // The place of claims is not that of the search.
    expect(claim(cursor, 5_001)).toMatchObject({ at: at(10), id: "5" });
  });

  it("walks shorter slices after one that was cancelled, and leaves a moment out that cannot be walked", () => {
    const cursor = dear();
    const slices: unknown[] = [];
    for (let now = 5_000; slices.length < 8; now += 5_000) {
      const { backMs, untilMs } = cursor.requests(lanes, now)[0]!;
      slices.push([untilMs, backMs]);
      cursor.gaveUp(2_000, now);
    }
    expect(slices).toEqual([
      [0, 1_000],
      [0, 250],
      [0, 62.5],
      [0, 15.625],
      [0, 3.90625],
      [0, 1],
      [1, 2],
      [2, 3],
    ]);
  });

  it("keeps a place for a lane from which nothing was claimed", () => {
    const cursor = new Cursor();
    claim(cursor, 0, { cost: 100 });
    expect(Date.parse(claim(cursor, 1).at)).toBeGreaterThan(Date.now() - 90_000);
  });

  it("is known to be dear by a look that took long", () => {
    const cursor = standing();
    cursor.lookTook(20, [3], 10);
    expect(cursor.dear).toBe(false);
    cursor.lookTook(200, [3], 10);
    expect(cursor.dear).toBe(true);
    expect(claim(cursor, 600)).toMatchObject({ id: "5" });
    expect(claim(cursor, 5_010)).toHaveProperty("untilMs", 0);
  });

  it("concerns lanes that are asked for; others are searched when they are", () => {
    const both = [...lanes, { lane: 4, room: 1 }];
    const cursor = new Cursor();
    cursor.requests(both, 0);
    cursor.learn([job(10, 5), job(20, 6, 4)], false, 100, 0);
    expect(claim(cursor, 5_000, { cost: 1 })).toHaveProperty("untilMs", 0);
    expect(cursor.requests(both, 5_020)).toEqual([
      { lane: 3, room: 10, at: at(10), id: "0", backMs: 17_000, untilMs: 1_000 },
      { lane: 4, room: 1, at: at(20), id: "0", backMs: 1_000, untilMs: 0 },
    ]);
  });

  /** A past of which each ms holds dead rows for so long as a snapshot was held, and what a walk of it costs. */
  const world = (deadPerMs: number, heldMs: number) => ({
    walk: ({ backMs, untilMs }: { backMs: number; untilMs: number }) =>
      Math.max(0, Math.min(backMs, heldMs) - Math.min(untilMs, heldMs)) * deadPerMs * 1e-4 + 0.2,
  });

  it.each([
    ["a minute at 50k a second", 50, 60_000],
    ["ten minutes at 10k a second", 10, 600_000],
    ["two hours at 1k a second", 1, 7_200_000],
    ["nothing any more", 0, 0],
  ])("gets to the beginning in slices of few ms: %s", (_, deadPerMs, heldMs) => {
    const { walk } = world(deadPerMs, heldMs);
    const cursor = dear(1_000);
    const costs: number[] = [];
    let now = 5_000;
    let reached = 0;
    while (reached < 3e13 && costs.length < 5_000) {
      const slice = cursor.requests(lanes, now)[0] as { backMs: number; untilMs: number };
      expect(slice.untilMs).toBeLessThanOrEqual(reached);
      reached = slice.backMs;
      const cost = walk(slice);
      costs.push(cost);
      cursor.learn([], false, cost, now + cost);
      now += cost + (cursor.pendingIn(now + cost) ?? 0);
    }
    const all = costs.reduce((sum, cost) => sum + cost, 0);
    // A slice that is sixteen times as long as one that was quick costs sixteen times as much at most.
    expect(Math.max(...costs)).toBeLessThanOrEqual(32 + 0.2);
    expect(reached).toBeGreaterThan(3e13);
    expect(now - 5_000).toBeLessThan(22 * all + 1_000);
    expect(all).toBeLessThan(heldMs * deadPerMs * 1e-4 + costs.length * 0.3);
    // Once nothing is in the way it begins at the beginning again.
    expect(cursor.dear).toBe(heldMs > 0);
  });
});
