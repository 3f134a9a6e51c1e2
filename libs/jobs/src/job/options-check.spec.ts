import { describe as found, nearest, OptionsCheck } from "./options-check.js";

describe("nearest", () => {
  const words = ["attempts", "backoff", "timeout", "at", "key"];
  it.each([
    ["atempts", "attempts"],
    ["maxAttempts", "attempts"],
    ["timeOut", "timeout"],
    ["back_off", "backoff"],
    ["keys", "key"],
    ["zzzzzz", undefined],
    ["x", undefined],
    ["__proto__", undefined],
    ["a".repeat(1e6), undefined],
  ])("%.20s means %p", (text, word) => {
    expect(nearest(text, words)).toBe(word);
  });
});

describe("OptionsCheck", () => {
  it("collects every problem and throws them together", () => {
    const check = new OptionsCheck("things");
    expect(check.integer("a", "5", 1, 9)).toBeUndefined();
    expect(check.integer("b", 5, 1, 9)).toBe(5);
    expect(check.word("c", "on-strat", ["never", "on-start"])).toBeUndefined();
    expect(check.flag("d", 1)).toBeUndefined();
    expect(check.duration("e", "5ms", 10)).toBeUndefined();
    expect(check.absentOr("f", undefined, [])).toEqual({});
    expect(() => check.done()).toThrow(
      "Invalid things:\n" +
        '  - a: expected an integer 1..9, found "5"\n' +
        "  - c: expected 'never' or 'on-start', found \"on-strat\"; did you mean 'on-start'?\n" +
        "  - d: expected true or false, found 1\n" +
        '  - e: expected a duration of at least 10 ms, found "5ms"',
    );
  });

  it("is content without problems", () => {
    expect(() => new OptionsCheck("x").done()).not.toThrow();
  });
});

describe("what was found", () => {
  it("never shows a URL", () => {
    expect(found("postgres://u:secret@h/d")).toBe("a URL");
    expect(found(new Date(0))).toBe("the Date 1970-01-01T00:00:00.000Z");
    expect(found(new Date(Number.NaN))).toBe("an invalid Date");
    expect([null, undefined, 5n, Symbol("x"), [], {}, () => 1, NaN].map(found)).toEqual([
      "null",
      "undefined",
      "a bigint",
      "a symbol",
      "an array",
      "an object",
      "a function",
      "NaN",
    ]);
  });
});
