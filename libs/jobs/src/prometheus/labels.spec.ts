import { Labels } from "./labels.js";

function open(most: number) {
  const told: string[] = [];
  return { labels: new Labels(most, (what) => told.push(what)), told };
}

it("names stay what they are as long as they are few, and whoever was there first", () => {
  const { labels, told } = open(2);
  expect(["a", "b", "a"].map((name) => labels.queue(name))).toEqual(["a", "b", "a"]);
  expect(told).toEqual([]);
  expect(["c", "d", "a", "b"].map((name) => labels.queue(name))).toEqual([
    "other",
    "other",
    "a",
    "b",
  ]);
  expect(told).toEqual(["queues"]);
});

it("counts kinds by queue: the same name in another queue is another pair", () => {
  const { labels, told } = open(2);
  expect(labels.kind("a", "x")).toBe("x");
  expect(labels.kind("b", "x")).toBe("x");
  expect(labels.kind("a", "y")).toBe("other");
  expect(labels.kind("b", "x")).toBe("x");
  expect(told).toEqual(["kinds"]);
});

it("has no kind in a queue that has no label of its own", () => {
  const { labels } = open(1);
  labels.queue("a");
  expect(labels.kind("b", "x")).toBe("other");
  expect(labels.kind("a", "x")).toBe("x");
});
