import { storedResult, unstorable, whyUnstored } from "./stored-result.js";

const LIMIT = 1_000;
const why = (value: unknown) => whyUnstored(storedResult(value, LIMIT).text);

describe("a result that is stored", () => {
  it.each([undefined, null, 0, "text", [1], {}, { a: 1 }])("says of itself only: %j", (value) => {
    const { text, problem } = storedResult(value, LIMIT);
    expect(text).toBe(value === undefined ? null : JSON.stringify(value));
    expect(problem).toBeUndefined();
    expect(why(value)).toBeUndefined();
  });

  it("may have our key beside others", () => {
    const [key] = Object.keys(JSON.parse(unstorable(undefined)) as object) as [string];
    expect(why({ [key]: "mine", other: 1 })).toBeUndefined();
    expect(why({ [key]: 7 })).toBeUndefined();
  });
});

describe("in the place of one that is not stored stands why", () => {
  it("for what JSON cannot carry, and what is too long", () => {
    expect(why(1n)).toMatch(/^Expected JSON at result, found a BigInt/);
    expect(why("x".repeat(LIMIT))).toMatch(/^Expected a result of at most 1000 bytes/);
  });

  it("for what throws when it is read, whatever that is", () => {
    const reasons: unknown[] = [new Error("no luck"), undefined, null, "text"];
    for (const reason of reasons) {
      const value = {
        toJSON() {
          throw reason;
        },
      };
      expect(why(value)).toMatch(
        /^Expected JSON at result, found a getter or toJSON\(\) that throws/,
      );
    }
  });

  it("for what looks like it", () => {
    const forged: unknown = JSON.parse(storedResult(1n, LIMIT).text!);
    expect(why(forged)).toContain("which is reserved");
  });

  it("for what PostgreSQL refuses, in words that any database takes", () => {
    expect(whyUnstored(unstorable("LATIN1"))).toContain("a character that LATIN1 lacks");
    expect(whyUnstored(unstorable(undefined))).toContain("PostgreSQL refuses");
  });

  it("as PostgreSQL writes it too, and no longer than a line", () => {
    const text = storedResult({ ["k".repeat(5_000)]: 1n }, 100_000).text!;
    expect(text.length).toBeLessThan(1_100);
    expect(whyUnstored(text.replace('":', '": '))).toBe(whyUnstored(text));
  });
});
