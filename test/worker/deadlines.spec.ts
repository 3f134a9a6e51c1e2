import { jest } from "@jest/globals";
import { Deadlines } from "../../libs/jobs/src/worker/deadlines.js";
import { until } from "../support/until.js";

describe("Deadlines", () => {
  let passed: string[];
  let times: Map<string, number>;
  let deadlines: Deadlines<string>;
  beforeEach(() => {
    passed = [];
    times = new Map();
    deadlines = new Deadlines((item) => {
      passed.push(item);
      times.set(item, performance.now());
    });
  });
  afterEach(() => deadlines.clear());
  const all = async (count: number) =>
    await until(() => passed.length === count, { every: 2, what: `${count} have passed` });

  it("tells each in its time, not before, whatever the order they came in", () => {
    // By a clock of its own: on a machine that stands still several pass at once.
    jest.useFakeTimers();
    try {
      const from = performance.now();
      const waits = { c: 120, a: 20, d: 180, b: 60 };
      for (const [item, ms] of Object.entries(waits)) deadlines.add(item, ms);
      jest.advanceTimersByTime(1_000);
      expect(passed).toEqual(["a", "b", "c", "d"]);
      for (const [item, ms] of Object.entries(waits)) {
        expect(times.get(item)! - from).toBeGreaterThanOrEqual(ms);
        expect(times.get(item)! - from).toBeLessThan(ms + 5);
      }
    } finally {
      deadlines.clear();
      jest.useRealTimers();
    }
  });

  it("tells what passes while the loop stands still, each once", async () => {
    const waits = { c: 50, a: 10, b: 30 };
    for (const [item, ms] of Object.entries(waits)) deadlines.add(item, ms);
    const end = performance.now() + 80;
    while (performance.now() < end);
    await all(3);
    expect(passed.toSorted()).toEqual(["a", "b", "c"]);
  });

  it("tells items of one duration in the order they came", async () => {
    for (const item of ["a", "b", "c"]) deadlines.add(item, 20);
    await all(3);
    expect(passed).toEqual(["a", "b", "c"]);
  });

  it("tells nothing of what was removed", async () => {
    for (const item of ["a", "b", "c"]) deadlines.add(item, 30);
    deadlines.add("d", 10);
    deadlines.add("e", 60);
    deadlines.remove("a", 30);
    deadlines.remove("d", 10);
    deadlines.remove("nobody", 30);
    deadlines.remove("nobody", 31);
    await all(3);
    expect(passed).toEqual(["b", "c", "e"]);
  });

  it("tells nothing after clear, and starts anew", async () => {
    deadlines.add("a", 10);
    deadlines.clear();
    deadlines.add("b", 30);
    await all(1);
    expect(passed).toEqual(["b"]);
  });

  it("a later deadline that comes first does not hold up an earlier one", async () => {
    const from = performance.now();
    deadlines.add("late", 15_000);
    deadlines.add("early", 20);
    await all(1);
    expect(performance.now() - from).toBeLessThan(14_000);
  });

  it("one beyond the longest timer of Node has not passed at once", async () => {
    deadlines.add("for ever", 10 * 365 * 86_400_000);
    deadlines.add("soon", 30);
    await all(1);
    expect(passed).toEqual(["soon"]);
  });

  it("may be added to and removed from while it tells", async () => {
    const told: string[] = [];
    const chain: Deadlines<string> = new Deadlines((item) => {
      told.push(item);
      if (item === "a") {
        chain.remove("c", 20);
        chain.add("b", 10);
      }
    });
    chain.add("a", 10);
    chain.add("c", 200);
    chain.remove("c", 200);
    await until(() => told.length === 2, { every: 2 });
    expect(told).toEqual(["a", "b"]);
  });

  it("keeps no process alive", () => {
    // Timers that keep it alive; Jest has one of its own.
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout");
    const before = timers();
    deadlines.add("a", 60_000);
    expect(timers()).toEqual(before);
  });
});
