import type { Backoff } from "./backoff.js";
import { fixed } from "./backoff.js";
import { JobTimeoutError } from "./errors.js";
import type { DecisionPolicy, Result } from "./verdict.js";
import { bury, decide, skip, snooze, Verdict } from "./verdict.js";

const policy: DecisionPolicy = { backoff: fixed("30s", { jitter: 0 }) };
const fresh = { failures: 0, attempts: 3 };
const error = new TypeError("x");
const random = (): number => 0;
const threw = (e: unknown): Result => ({ type: "threw", error: e });

describe("decide", () => {
  it("succeeds with what was returned", () => {
    for (const value of [undefined, null, 0, "x", new Error("returned")]) {
      expect(decide(fresh, { type: "returned", value }, policy, random)).toEqual({
        verb: "succeed",
        result: value,
      });
    }
  });

  it("treats a verdict the same, returned or thrown", () => {
    for (const result of [
      (v: unknown): Result => ({ type: "returned", value: v }),
      (v: unknown): Result => threw(v),
    ]) {
      const last = { failures: 2, attempts: 3 };
      const all = { ...policy, retryOn: [], buryOn: [Error] };
      expect(decide(last, result(snooze("5s")), all, random)).toEqual({
        verb: "snooze",
        delayMs: 5_000,
      });
      expect(decide(last, result(skip("done")), all, random)).toEqual({
        verb: "skip",
        reason: "done",
      });
      const verdict = bury("gone");
      expect(decide(fresh, result(verdict), policy, random)).toEqual({
        verb: "bury",
        error: verdict,
        reason: "buried",
      });
    }
  });

  it("knows a verdict of another copy of the package, and no pretender", () => {
    const brand = Symbol.for("nestjs-pg-jobs.verdict");
    const foreign = { [brand]: { verb: "snooze", delayMs: 7 } };
    expect(decide(fresh, threw(foreign), policy, random)).toEqual({ verb: "snooze", delayMs: 7 });
    const mock: unknown = new Proxy(() => mock, { get: () => mock });
    for (const value of [
      mock,
      { [brand]: mock },
      { [brand]: { verb: "succeed" } },
      { [brand]: { verb: "snooze", delayMs: NaN } },
    ]) {
      expect(decide(fresh, { type: "returned", value }, policy, random).verb).toBe("succeed");
    }
  });

  it("retries until the attempts are used up", () => {
    expect(decide(fresh, threw(error), policy, random)).toEqual({
      verb: "retry",
      delayMs: 30_000,
      error,
    });
    expect(decide({ failures: 1, attempts: 3 }, threw(error), policy, random).verb).toBe("retry");
    for (const failures of [2, 3, 99]) {
      expect(decide({ failures, attempts: 3 }, threw(error), policy, random)).toEqual({
        verb: "bury",
        error,
        reason: "exhausted",
      });
    }
  });

  it("counts a timed-out run as a failure that lists can name", () => {
    const late = new JobTimeoutError(5);
    const result: Result = { type: "timed-out", error: late };
    expect(decide(fresh, result, policy, random).verb).toBe("retry");
    expect(decide(fresh, result, { ...policy, buryOn: [JobTimeoutError] }, random)).toMatchObject({
      reason: "bury-on",
    });
    expect(decide(fresh, result, { ...policy, retryOn: [JobTimeoutError] }, random).verb).toBe(
      "retry",
    );
    expect(decide(fresh, result, { ...policy, retryOn: [TypeError] }, random)).toMatchObject({
      reason: "not-retryable",
    });
  });

  it("asks buryOn before retryOn", () => {
    const both = { ...policy, retryOn: [Error], buryOn: [TypeError] };
    expect(decide(fresh, threw(error), both, random)).toMatchObject({
      verb: "bury",
      reason: "bury-on",
    });
    expect(decide(fresh, threw(new RangeError("y")), both, random).verb).toBe("retry");
    expect(decide(fresh, threw(error), { ...policy, retryOn: [] }, random)).toMatchObject({
      reason: "not-retryable",
    });
  });

  it("hands an aborted run back", () => {
    expect(decide({ failures: 2, attempts: 3 }, { type: "aborted" }, policy, random)).toEqual({
      verb: "hand-back",
    });
  });

  it.each([NaN, -1, Infinity, "5s", undefined, Promise.resolve(1)])(
    "survives a backoff that gives %p",
    (delay) => {
      const backoff: Backoff = { delay: () => delay as number };
      expect(decide(fresh, threw(error), { backoff }, random)).toMatchObject({
        verb: "retry",
        delayMs: 10_000,
        problem: expect.any(String),
      });
    },
  );

  it("survives a backoff, a class or an error that throws", () => {
    const fail = (): never => {
      throw new Error("no");
    };
    expect(decide(fresh, threw(error), { backoff: { delay: fail } }, random)).toMatchObject({
      delayMs: 10_000,
    });
    class Odd extends Error {
      static override [Symbol.hasInstance](): boolean {
        return fail();
      }
    }
    expect(
      decide(fresh, threw(error), { ...policy, buryOn: [Odd, TypeError] }, random),
    ).toMatchObject({ reason: "bury-on" });
    const hostile: unknown = new Proxy({}, { get: fail, getPrototypeOf: fail });
    expect(decide(fresh, threw(hostile), { ...policy, buryOn: [TypeError] }, random).verb).toBe(
      "retry",
    );
    for (const thrown of [null, undefined, "x", 5n]) {
      expect(decide(fresh, threw(thrown), { ...policy, buryOn: [TypeError] }, random).verb).toBe(
        "retry",
      );
    }
  });

  it("settles every random case as its rule says", () => {
    for (let i = 0; i < 2_000; i++) {
      const attempts = 1 + Math.floor(Math.random() * 10);
      const failures = Math.floor(Math.random() * attempts);
      const decision = decide({ failures, attempts }, threw(error), policy, Math.random);
      expect(decision.verb).toBe(failures + 1 < attempts ? "retry" : "bury");
    }
  });
});

describe("verdicts", () => {
  it("are errors, refuse bad durations and cut long reasons", () => {
    expect(snooze(5)).toBeInstanceOf(Verdict);
    expect(skip("a")).toBeInstanceOf(Error);
    expect(bury("mailbox gone")).toMatchObject({ name: "Buried", message: "mailbox gone" });
    expect(() => snooze("soon")).toThrow(/snooze/);
    expect(skip("x".repeat(5_000)).message).toHaveLength(1_000);
  });
});
