import { EventEmitter } from "node:events";
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
    half.hintAfterCommit({}, [{ queueId: 7, kind: "mine", ms: 0 }]);
    half.hintAfterCommit({}, [{ queueId: 7, kind: "theirs", ms: 0 }]);
    jest.advanceTimersByTime(10);
    expect([...asked]).toEqual(["mine", "theirs"]);
    expect(said).toEqual(["7"]);
    half.close();
  });

  it("are said 5, 50 and 500 ms after each call, whatever was called before", () => {
    hints.hintAfterCommit({}, [{ queueId: 7, kind: "work", ms: 0 }]);
    jest.advanceTimersByTime(440);
    said.length = 0;
    hints.hintAfterCommit({}, [{ queueId: 7, kind: "work", ms: 0 }]);
    jest.advanceTimersByTime(499);
    // 5 and 50 after it, and 500 after the one before.
    expect(said).toEqual(["7", "7", "7"]);
    jest.advanceTimersByTime(4);
    expect(said).toEqual(["7", "7", "7", "7"]);
  });

  it("share timers, however many calls there are", () => {
    for (let call = 0; call < 10_000; call++) {
      hints.hintAfterCommit({}, [{ queueId: 7, kind: "work", ms: 0 }]);
      if (call % 20 === 0) jest.advanceTimersByTime(1);
    }
    expect(jest.getTimerCount()).toBeLessThan(300);
  });
});

describe("jobs that have been due for long", () => {
  it("are told of as what may lie behind, also by the hint that follows another one", () => {
    jest.useFakeTimers();
    hints.hintIn(7, "work", -2_000);
    hints.hintIn(8, "work", -100);
    hints.hintIn(8, "work", -2_000);
    hints.hintIn(8, "work", 0);
    expect(said).toEqual(["7<", "8"]);
    jest.advanceTimersByTime(12);
    expect(said).toEqual(["7<", "8", "8<"]);
    jest.useRealTimers();
  });
});

describe("a transaction on a client of pg", () => {
  let status: string;
  let tx: { connection: EventEmitter; getTransactionStatus: () => string };
  /** What its server says after a statement. */
  const answer = (now: string) => {
    status = now;
    tx.connection.emit("readyForQuery", { status });
  };
  const times = (ms = 0) => [{ queueId: 7, kind: "work", ms }];
  beforeEach(() => {
    jest.useFakeTimers();
    tx = { connection: new EventEmitter(), getTransactionStatus: () => status };
    status = "T";
  });
  afterEach(() => void jest.useRealTimers());

  it("is told of when it has ended, at once and once, and not before", () => {
    hints.hintAfterCommit(tx, times());
    hints.hintAfterCommit(tx, times());
    jest.advanceTimersByTime(800);
    answer("T");
    expect(said).toEqual([]);
    answer("I");
    expect(said).toEqual(["7"]);
    answer("T");
    answer("I");
    jest.advanceTimersByTime(60_000);
    // The second call had its word 10 ms later.
    expect(said).toEqual(["7", "7"]);
    expect(tx.connection.eventNames()).toEqual([]);
  });

  it("is told of as what may lie behind, when it was open for long", () => {
    hints.hintAfterCommit(tx, times());
    jest.advanceTimersByTime(30_000);
    answer("I");
    expect(said).toEqual(["7<"]);
  });

  it("is not told of before its job is due", () => {
    hints.hintAfterCommit(tx, times(1_500));
    jest.advanceTimersByTime(1_000);
    answer("I");
    jest.advanceTimersByTime(400);
    expect(said).toEqual([]);
    jest.advanceTimersByTime(200);
    expect(said).toEqual(["7"]);
  });

  it("is told of when its connection is lost, and when the app is closed before its end", () => {
    hints.hintAfterCommit(tx, times());
    tx.connection.emit("end");
    expect(said).toEqual(["7"]);
    jest.advanceTimersByTime(100);
    hints.hintAfterCommit(tx, times());
    hints.close();
    expect(said).toEqual(["7", "7"]);
    answer("I");
    expect(said).toEqual(["7", "7"]);
  });
});

describe("when the app is closed", () => {
  it("what was to be said a little later is said", () => {
    hints.hint(7, "work");
    hints.hint(7, "work");
    hints.hint(8, "work");
    hints.hintAfterCommit({}, [{ queueId: 9, kind: "work", ms: 0 }]);
    expect(said).toEqual(["7", "8"]);
    hints.close();
    expect(said).toEqual(["7", "8", "7", "9"]);
  });

  it("nothing is said where hints are off", () => {
    const silent = new Hints(runner, "jobs", false, nobody);
    silent.hintAfterCommit({}, [{ queueId: 9, kind: "work", ms: 0 }]);
    silent.close();
    expect(said).toEqual([]);
  });
});
