import { Counter, Histogram, Registry, type RegistryContentType } from "prom-client";
import { Buckets } from "./buckets.js";
import { Family } from "./family.js";

// What we count for ourselves reads like what prom-client counts.

const BOUNDS = [0.1, 1, 10];
const VALUES = [0.05, 0.1, 0.5, 7, 10, 11, 0, 3];
const labels = { queue: 'a "queue"\\', kind: "x\ny" };
const TYPES = [Registry.PROMETHEUS_CONTENT_TYPE, Registry.OPENMETRICS_CONTENT_TYPE];

function open(type: RegistryContentType): Registry {
  const registry = new Registry();
  (registry as Registry<RegistryContentType>).setContentType(type);
  return registry;
}

it.each(TYPES)("a histogram, as %s", async (type) => {
  const theirs = open(type);
  const about = { name: "took_seconds", help: "How long it took." };
  const histogram = new Histogram({
    ...about,
    labelNames: ["queue", "kind"],
    buckets: BOUNDS,
    registers: [theirs],
  });
  const buckets = new Buckets(BOUNDS);
  for (const value of VALUES) {
    histogram.observe(labels, value);
    buckets.add(value);
  }
  const ours = open(type);
  ours.registerMetric(
    new Family(about.name, "histogram", about.help, () => buckets.samples(about.name, labels))
      .metric,
  );
  expect(await ours.metrics()).toBe(await theirs.metrics());
  expect(await ours.metrics()).toContain('le="0.1"');
});

it.each(TYPES)("a counter, as %s", async (type) => {
  const theirs = open(type);
  const counter = new Counter({
    name: "seen_total",
    help: "How many were seen.",
    labelNames: ["queue", "kind"],
    registers: [theirs],
  });
  counter.inc(labels, 3);
  const ours = open(type);
  const family = new Family("seen_total", "counter", "How many were seen.", () => [
    { labels, value: 3 },
  ]);
  ours.registerMetric(family.metric);
  // Twice: OpenMetrics has changed its name by then.
  await ours.metrics();
  expect(await ours.metrics()).toBe(await theirs.metrics());
  expect(await ours.metrics()).toMatch(/^seen_total\{.*\} 3$/m);
  ours.removeSingleMetric(family.registered);
  expect(await ours.metrics()).not.toContain("seen");
});

it("a histogram without a value has no samples", () => {
  expect(new Buckets(BOUNDS).samples("took_seconds", labels)).toEqual([]);
});
