import { durationMs, MAX_DURATION_MS, readDuration } from "./duration.js";
import { OptionsError } from "./errors.js";

describe("durationMs", () => {
  it.each([
    [1, 1],
    [1500, 1500],
    [0.2, 1],
    ["500ms", 500],
    ["90s", 90_000],
    ["1.1s", 1_100],
    ["5m", 300_000],
    ["1.5h", 5_400_000],
    ["7d", 604_800_000],
    ["3652.5d", MAX_DURATION_MS],
  ])("%p is %p ms", (duration, ms) => {
    expect(durationMs(duration)).toBe(ms);
  });

  it.each([
    0,
    -1,
    NaN,
    Infinity,
    MAX_DURATION_MS + 1,
    "",
    "0s",
    "5",
    "5 m",
    "-5m",
    "5M",
    "m",
    "1e3s",
  ])("refuses %p", (duration) => {
    expect(() => durationMs(duration, "timeout")).toThrow(OptionsError);
  });

  it.each([null, undefined, {}, [], 5n, "9".repeat(100) + "s"])("refuses %p", (duration) => {
    expect(() => durationMs(duration as string)).toThrow(OptionsError);
  });

  it("says which option, what was expected and what was found", () => {
    expect(() => durationMs("5", "timeout")).toThrow(/timeout.*\n.*'500ms'.*'5' without a unit/);
  });
});

describe("readDuration", () => {
  it("gives 0 for 0 and undefined for what is none", () => {
    expect(readDuration(0)).toBe(0);
    expect(readDuration("0s")).toBe(0);
    expect(readDuration("soon")).toBeUndefined();
  });
});
