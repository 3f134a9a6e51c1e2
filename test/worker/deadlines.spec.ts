import { jest } from "@jest/globals";
import { Deadlines, Timed } from "../../libs/jobs/src/worker/deadlines.js";
import { until } from "../support/until.js";

class Item extends Timed {
  constructor(readonly name: string) {
    super();
  }
}

describe("Deadlines", () => {
  const items = new Map<string, Item>();
  const item = (name: string): Item => {
    const one = items.get(name) ?? new Item(name);
    items.set(name, one);
    return one;
  };
  let passed: string[];
  let times: Map<string, number>;
  let deadlines: Deadlines<Item>;
  beforeEach(() => {
    passed = [];
    times = new Map();
    items.clear();
    deadlines = new Deadlines(({ name }) => {
      passed.push(name);
      times.set(name, performance.now());
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
      for (const [name, ms] of Object.entries(waits)) deadlines.add(item(name), ms);
      jest.advanceTimersByTime(1_000);
      expect(passed).toEqual(["a", "b", "c", "d"]);
      for (const [name, ms] of Object.entries(waits)) {
        expect(times.get(name)! - from).toBeGreaterThanOrEqual(ms);
        expect(times.get(name)! - from).toBeLessThan(ms + 5);
      }
    } finally {
      deadlines.clear();
      jest.useRealTimers();
    }
  });

  it("tells what passes while the loop stands still, each once", async () => {
    const waits = { c: 50, a: 10, b: 30 };
    for (const [name, ms] of Object.entries(waits)) deadlines.add(item(name), ms);
    const end = performance.now() + 80;
    while (performance.now() < end);
    await all(3);
    expect(passed.toSorted()).toEqual(["a", "b", "c"]);
  });

  it("tells items of one duration in the order they came", async () => {
    for (const name of ["a", "b", "c"]) deadlines.add(item(name), 20);
    await all(3);
    expect(passed).toEqual(["a", "b", "c"]);
  });

  it("tells nothing of what was removed", async () => {
    for (const name of ["a", "b", "c"]) deadlines.add(item(name), 30);
    deadlines.add(item("d"), 10);
    deadlines.add(item("e"), 60);
    deadlines.remove(item("a"), 30);
    deadlines.remove(item("d"), 10);
    deadlines.remove(item("nobody"), 30);
    deadlines.remove(item("nobody"), 31);
    await all(3);
    expect(passed).toEqual(["b", "c", "e"]);
  });

  it("takes them out from anywhere, and has them once, where they were put last", async () => {
    for (const name of ["a", "b", "c", "d", "e"]) deadlines.add(item(name), 30);
    for (const name of ["c", "a", "e", "c"]) deadlines.remove(item(name), 30);
    deadlines.add(item("a"), 30);
    deadlines.add(item("b"), 30);
    deadlines.add(item("d"), 60);
    deadlines.remove(item("d"), 30);
    await all(3);
    expect(passed).toEqual(["a", "b", "d"]);
  });

  it("what waits says nothing of who waits beside it", () => {
    for (const name of ["a", "b"]) deadlines.add(item(name), 60_000);
    expect(JSON.stringify(item("a"))).toBe('{"name":"a"}');
  });

  it("tells nothing after clear, and starts anew", async () => {
    deadlines.add(item("a"), 10);
    deadlines.clear();
    deadlines.add(item("b"), 30);
    await all(1);
    expect(passed).toEqual(["b"]);
  });

  it("a later deadline that comes first does not hold up an earlier one", async () => {
    const from = performance.now();
    deadlines.add(item("late"), 15_000);
    deadlines.add(item("early"), 20);
    await all(1);
    expect(performance.now() - from).toBeLessThan(14_000);
  });

  it("one beyond the longest timer of Node has not passed at once", async () => {
    deadlines.add(item("for ever"), 10 * 365 * 86_400_000);
    deadlines.add(item("soon"), 30);
    await all(1);
    expect(passed).toEqual(["soon"]);
  });

  it("may be added to and removed from while it tells", async () => {
    const told: string[] = [];
    const chain: Deadlines<Item> = new Deadlines(({ name }) => {
      told.push(name);
      if (name === "a") {
        chain.remove(item("c"), 20);
        chain.add(item("b"), 10);
      }
    });
    chain.add(item("a"), 10);
    chain.add(item("c"), 200);
    chain.remove(item("c"), 200);
    await until(() => told.length === 2, { every: 2 });
    expect(told).toEqual(["a", "b"]);
  });

  it("keeps no process alive", () => {
    // Timers that keep it alive; Jest has one of its own.
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout");
    const before = timers();
    deadlines.add(item("a"), 60_000);
    expect(timers()).toEqual(before);
  });
});
