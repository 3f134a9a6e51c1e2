import type { Backoff } from "./backoff.js";
import { exponential, fixed, linear, steps } from "./backoff.js";
import { OptionsError } from "./errors.js";

const none = (): number => 0;
const waits = (backoff: Backoff, n: number, random = none): number[] =>
  Array.from({ length: n }, (_, i) => backoff.delay(i + 1, new Error("x"), random));

describe("backoffs", () => {
  it("wait as they say", () => {
    expect(waits(fixed("30s"), 3)).toEqual([30_000, 30_000, 30_000]);
    expect(waits(linear({ first: 1000 }), 3)).toEqual([1000, 2000, 3000]);
    expect(waits(linear({ first: 1000, step: 500, max: 1700 }), 4)).toEqual([
      1000, 1500, 1700, 1700,
    ]);
    expect(waits(steps("1m", "5m", "30m"), 5)).toEqual([6e4, 3e5, 18e5, 18e5, 18e5]);
    expect(waits(exponential({ first: "30s", factor: 4 }), 3)).toEqual([30_000, 120_000, 480_000]);
    expect(waits(exponential(), 4)).toEqual([10_000, 20_000, 40_000, 80_000]);
  });

  it("reach their cap and stay there", () => {
    expect(exponential().delay(1000, null, none)).toBe(3_600_000);
    expect(exponential({ factor: 100 }).delay(1e6, null, none)).toBe(3_600_000);
    expect(exponential({ first: "2h" }).delay(9, null, none)).toBe(7_200_000);
  });

  it("only lengthen by jitter, and by no more than it", () => {
    for (let i = 0; i < 2_000; i++) {
      const failures = 1 + Math.floor(Math.random() * 30);
      const jitter = Math.random();
      const plain = exponential({ jitter: 0 }).delay(failures, null, Math.random);
      const wait = exponential({ jitter }).delay(failures, null, Math.random);
      expect(wait).toBeGreaterThanOrEqual(plain);
      expect(wait).toBeLessThanOrEqual(Math.ceil(plain * (1 + jitter)));
    }
    expect(waits(steps("1m"), 1, () => 0.99)).toEqual([60_000]);
    expect(waits(fixed(1000), 1, () => 0.5)).toEqual([1050]);
  });

  it("are frozen, and steps tell their number", () => {
    for (const backoff of [fixed(1), linear({ first: 1 }), steps(1, 2), exponential()]) {
      expect(Object.isFrozen(backoff)).toBe(true);
    }
    expect(steps("1m", "5m").length).toBe(2);
  });

  it.each([
    () => fixed(0),
    () => fixed(undefined as never),
    () => fixed("1s", { jitter: 1.1 }),
    () => fixed("1s", null as never),
    () => linear({} as never),
    () => linear({ first: "1m", max: "1s" }),
    () => linear("1m" as never),
    () => steps(),
    () => steps("1m", "soon"),
    () => exponential({ factor: 0.5 }),
    () => exponential({ factor: NaN }),
    () => exponential({ jitter: -1 }),
  ])("refuse bad options: %s", (make) => {
    expect(make).toThrow(OptionsError);
  });

  it("tell all problems at once, with the option meant", () => {
    expect(() => exponential({ first: "x", factr: 2 } as never)).toThrow(
      /factr: unknown option, did you mean factor\?\n.*first: expected/,
    );
  });
});
