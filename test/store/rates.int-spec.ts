import { setRules } from "../../libs/jobs/src/store/limits/rules.js";
import type { Hands } from "../support/hands.js";
import { Bench } from "../support/harness.js";
import { Limited, idsOf, rule } from "../support/limited.js";

// How many start in a window: none of it, wherever it begins, has more.

let bench: Bench;
let limited: Limited;
let hands: Hands;
beforeEach(async () => {
  bench = await Bench.open();
  limited = await Limited.open(bench);
  ({ hands } = limited);
});
afterEach(async () => await bench.close());

const limit: Limited["limit"] = async (...of) => await limited.limit(...of);
const take: Limited["take"] = async (...of) => await limited.take(...of);
const done: Limited["done"] = async (...of) => await limited.done(...of);
const tenant: Limited["tenant"] = async (...of) => await limited.tenant(...of);

describe("a rate", () => {
  /** Starts of all that was claimed, by the server's clock, in ms. */
  const starts = async (where = "true") =>
    (
      await bench.sql<{ ms: number }>(
        `select extract(epoch from started_at)::float8 * 1000 as ms from jobs.done where ${where}
         union all select extract(epoch from claimed_at)::float8 * 1000 from jobs.job where claimed_at is not null and ${where} order by 1`,
      )
    ).map(({ ms }) => ms);
  const mostIn = (times: number[], window: number) =>
    Math.max(
      0,
      ...times.map((from) => times.filter((at) => at >= from && at < from + window).length),
    );

  it.each([
    { rate: 1, rateMs: 200 },
    { rate: 2, rateMs: 300 },
    { rate: 7, rateMs: 250 },
    { rate: 30, rateMs: 400 },
    { rate: 200, rateMs: 500 },
  ])("of %j: no window has more, and it is used", async (numbers) => {
    await limit([numbers]);
    const { rate, rateMs } = numbers;
    const windows = 4;
    await hands.addMany(rate * windows * 2);
    const end = performance.now() + rateMs * windows;
    let waited: number | undefined;
    while (performance.now() < end) {
      const { claims, waitMs, blocked } = await take();
      waited ??= waitMs;
      if (claims.length === 0) expect(blocked).toBe(true);
    }
    const times = await starts();
    expect(mostIn(times, rateMs)).toBeLessThanOrEqual(rate);
    expect(times.length).toBeGreaterThanOrEqual(Math.floor(rate * windows * 0.75));
    expect(times.length).toBeLessThanOrEqual(rate * (windows + 1));
    expect(waited).toBeGreaterThan(0);
    expect(waited).toBeLessThanOrEqual(rateMs * 1.1 + 1);
  });

  it("for each key: parked until its key may start one again, which the answer tells", async () => {
    await limit([{ keyPath: "tenant", rate: 2, rateMs: 400 }]);
    await tenant(4, "a");
    await tenant(1, "b");
    const first = await take();
    expect(first.claims).toHaveLength(2);
    expect(first.parked).toBe(3);
    expect(first.waitMs).toBeGreaterThan(100);
    expect(first.waitMs).toBeLessThanOrEqual(220);
    const end = performance.now() + 3_000;
    let all = first.claims.length;
    while (all < 5 && performance.now() < end) all += (await take()).claims.length;
    expect(all).toBe(5);
    const times = await starts("payload ->> 'tenant' = 'a'");
    expect(mostIn(times, 400)).toBeLessThanOrEqual(2);
  });

  it("that is changed holds from then on, not when the one before would have let one start", async () => {
    await limit([{ rate: 1, rateMs: 3_600_000 }]);
    await hands.addMany(20);
    expect((await take()).claims).toHaveLength(1);
    expect((await take()).waitMs).toBeGreaterThan(3_000_000);
    await limit([{ rate: 50, rateMs: 100 }]);
    const next = await take();
    expect(next.waitMs ?? 0).toBeLessThan(100);
    const end = performance.now() + 2_000;
    let all = 1 + next.claims.length;
    while (all < 20 && performance.now() < end) all += (await take()).claims.length;
    expect(all).toBe(20);
    await limit([{ max: 5 }]);
    expect((await take()).waitMs).toBeUndefined();
    expect(await bench.sql("select from jobs.bucket")).toEqual([]);
  });

  it("that is changed to and fro gives nothing out twice, and goes on", async () => {
    const rates = [20, 19, 3, 20, 1, 20];
    await limit([{ rate: 20, rateMs: 2_000 }]);
    await hands.addMany(200);
    const end = performance.now() + 5_000;
    const front = bench.session();
    for (let n = 0; performance.now() < end; n++) {
      const rules = [rule({ rate: rates[n % rates.length]!, rateMs: 2_000 })];
      await front.transaction((run) => setRules({ run }, hands.queueId, { kind: "", rules }));
      const { claims } = await take();
      if (claims.length > 0) await done(claims);
    }
    const times = await starts();
    expect(mostIn(times, 2_000)).toBeLessThanOrEqual(20);
    expect(times.length).toBeGreaterThan(6);
  });

  it("with a limit: the tighter one holds", async () => {
    await limit([{ max: 1, rate: 100, rateMs: 1_000 }]);
    await hands.addMany(5);
    const first = await take();
    expect(first.claims).toHaveLength(1);
    expect((await take()).claims).toEqual([]);
    await done(first.claims);
    expect((await take({ over: idsOf(first) })).claims).toHaveLength(1);
  });
});
