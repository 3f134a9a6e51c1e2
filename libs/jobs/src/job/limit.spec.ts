import { eitherLimits, parseLimits } from "./limit.js";
import { OptionsCheck } from "./options-check.js";

// What is said of limits, as rules: one for all jobs, one for each key.

const rules = (given: Record<string, unknown>) => parseLimits(new OptionsCheck("x"), given);

it("nothing that is said is no rule", () => {
  expect(rules({})).toBeNull();
  expect(rules({ limit: [] })).toEqual([]);
});

it("a limit and a rate with the same key are one rule", () => {
  expect(
    rules({
      limit: [{ max: 3, key: "tenant" }, { max: 50 }],
      rate: { max: 100, per: "1m", key: "tenant" },
    }),
  ).toEqual([
    { keyPath: "", max: 50, rate: null, rateMs: null },
    { keyPath: "tenant", max: 3, rate: 100, rateMs: 60_000 },
  ]);
});

it("the order in which they are said means nothing", () => {
  const [a, b] = [
    { max: 3, key: "b" },
    { max: 5, key: "a.c" },
  ];
  expect(JSON.stringify(rules({ limit: [a, b] }))).toBe(JSON.stringify(rules({ limit: [b, a] })));
});

it("of what a definition and a handler say, limits and rates each are those of the first that says any", () => {
  const defined = rules({ limit: [{ max: 3, key: "tenant" }] });
  const handled = rules({ limit: { max: 9 }, rate: { max: 5, per: "1s", key: "tenant" } });
  expect(eitherLimits(defined, handled)).toEqual([
    { keyPath: "tenant", max: 3, rate: 5, rateMs: 1_000 },
  ]);
  expect(eitherLimits(handled, defined)).toEqual(handled);
  expect(eitherLimits(null, handled)).toEqual(handled);
  expect(eitherLimits(defined, null)).toEqual(defined);
  expect(eitherLimits(null, null)).toBeNull();
});

it("tells all that is wrong at once, with its place", () => {
  const check = new OptionsCheck("limits");
  parseLimits(check, { limit: [{ max: 0 }, { max: 1, key: "." }], rate: { max: 1 } }, "queues.a.");
  expect(() => check.done()).toThrow(
    /queues\.a\.limit\[0\]\.max.*queues\.a\.limit\[1\]\.key.*queues\.a\.rate\.per/s,
  );
});
