import { jest } from "@jest/globals";
import { Hints } from "../../libs/jobs/src/queue/hints.js";
import type { Statement } from "../../libs/jobs/src/pg/statement.js";

// What is said, and when: whether it arrives is tried in `hint.int-spec.ts`.

const said: unknown[] = [];
const runner = {
  run: async (_: Statement, values: readonly unknown[] = []) => {
    said.push(values[1]);
    return [];
  },
};
const nobody = { wake: () => false, changed: () => undefined };
let hints: Hints;
beforeEach(() => {
  said.length = 0;
  hints = new Hints(runner, "jobs", true, nobody);
});
afterEach(() => hints.close());

describe("a hint that was to go right behind an insert", () => {
  it("does not hold up the next one when it was not sent", () => {
    hints.ahead(7);
    hints.hint(7, "work");
    expect(said).toEqual(["7"]);
  });

  it("is followed by none for a while when it was sent", () => {
    hints.ahead(7)!.hooks.onSent!();
    expect(hints.ahead(7)).toBeUndefined();
    hints.hint(7, "work");
    expect(said).toEqual([]);
  });

  it("is said again when it was lost", () => {
    hints.ahead(7)!.hooks.onLost!();
    expect(said).toEqual(["7"]);
  });
});

describe("jobs of a transaction whose commit nobody tells of", () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it("are said for each kind: a worker of this process for one of them does not stand for all", () => {
    const asked = new Set<string>();
    const wake = (_: number, kind: string) => asked.add(kind) && kind === "mine";
    const half = new Hints(runner, "jobs", true, { wake, changed: () => undefined });
    half.hintAfterCommit(7, "mine", 0);
    half.hintAfterCommit(7, "theirs", 0);
    jest.advanceTimersByTime(10);
    expect([...asked]).toEqual(["mine", "theirs"]);
    expect(said).toEqual(["7"]);
    half.close();
  });

  it("are said 5, 50 and 500 ms after each call, whatever was called before", () => {
    hints.hintAfterCommit(7, "work", 0);
    jest.advanceTimersByTime(440);
    said.length = 0;
    hints.hintAfterCommit(7, "work", 0);
    jest.advanceTimersByTime(499);
    // 5 and 50 after it, and 500 after the one before.
    expect(said).toEqual(["7", "7", "7"]);
    jest.advanceTimersByTime(4);
    expect(said).toEqual(["7", "7", "7", "7"]);
  });

  it("share timers, however many calls there are", () => {
    for (let call = 0; call < 10_000; call++) {
      hints.hintAfterCommit(7, "work", 0);
      if (call % 20 === 0) jest.advanceTimersByTime(1);
    }
    expect(jest.getTimerCount()).toBeLessThan(300);
  });
});

describe("when the app is closed", () => {
  it("what was to be said a little later is said", () => {
    hints.hint(7, "work");
    hints.hint(7, "work");
    hints.hint(8, "work");
    hints.hintAfterCommit(9, "work", 0);
    expect(said).toEqual(["7", "8"]);
    hints.close();
    expect(said).toEqual(["7", "8", "7", "9"]);
  });

  it("nothing is said where hints are off", () => {
    const silent = new Hints(runner, "jobs", false, nobody);
    silent.hintAfterCommit(9, "work", 0);
    silent.close();
    expect(said).toEqual([]);
  });
});
