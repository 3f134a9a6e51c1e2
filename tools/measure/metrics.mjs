// Metrics: what hearing an event costs, and a drain with the module and without it.
import { Counter, Histogram, Registry } from "prom-client";
import { JOB_EVENTS } from "../../libs/jobs/dist/job/event.js";
import { Events } from "../../libs/jobs/dist/observe/events.js";
import { Labels } from "../../libs/jobs/dist/prometheus/labels.js";
import { Tallies } from "../../libs/jobs/dist/prometheus/tallies.js";
import { Story } from "../../libs/jobs/dist/worker/story.js";
import { JOBS, PLAIN, drained } from "./growth.mjs";
import { median, perSecond, ratio } from "./ground.mjs";

const EVENTS = 2_000_000;
const KINDS = 10;
const RUNS = 7;
const NAMES = ["started", "succeeded"];

/** As a worker tells them, with what it has to put together for that. */
const eventOf = (n) => ({
  event: NAMES[n % 2],
  id: "1-1",
  kind: `kind-${(n >> 1) % KINDS}`,
  queue: "default",
  attempt: 1,
  failures: 0,
  attempts: 5,
  ...(n % 2 === 0 ? { waitMs: n % 50 } : { durationMs: n % 300 }),
});

const DRAINS = {
  none: "drain without metrics",
  heard: "drain with metrics that nobody scrapes",
  scraped: "drain with metrics, scraped each second",
};

const LISTENERS = {
  "nobody listens": () => undefined,
  "a listener that does nothing": () => () => {},
  "the listener of JobsMetricsModule": () => new Tallies(new Labels(200, () => {})).hear,
  "prom-client, a bound child for each label set": boundChildren,
};

function boundChildren() {
  const registers = [new Registry()];
  const labelNames = ["event", "queue", "kind", "state"];
  const events = new Counter({ name: "events_total", help: "x", labelNames, registers });
  const took = new Histogram({ name: "took", help: "x", labelNames: ["queue", "kind"], registers });
  const children = new Map();
  return ({ event, queue, kind, waitMs, durationMs }) => {
    const key = `${event} ${queue} ${kind}`;
    let child = children.get(key);
    if (!child) {
      child = {
        counter: events.labels({ event, queue, kind, state: "running" }),
        histogram: took.labels({ queue, kind }),
      };
      children.set(key, child);
    }
    child.counter.inc();
    child.histogram.observe((waitMs ?? durationMs) / 1_000);
  };
}

/** Nanoseconds for each event. */
function heard(listener) {
  const events = new Events();
  if (listener) events.on(NAMES, listener);
  const all = Array.from({ length: 1_000 }, (_, n) => eventOf(n));
  const from = performance.now();
  for (let n = 0; n < EVENTS; n++) {
    const event = all[n % all.length];
    if (events.heard(event.event)) events.emit({ ...event });
  }
  return ((performance.now() - from) * 1e6) / EVENTS;
}

/** Nanoseconds for the start and the success of a job, from where a worker tells of them. */
function told(listener) {
  const events = new Events();
  if (listener) events.on(JOB_EVENTS, listener);
  const story = new Story(events, () => Date.UTC(2026, 10, 20) + performance.now());
  const attempts = Array.from({ length: 1_000 }, (_, n) => ({
    id: `1-${n}`,
    kind: `kind-${n % KINDS}`,
    queue: "default",
    attempt: 1,
    failures: 0,
    attempts: 5,
    startedAt: 1,
    claim: { runAt: `2026-11-19 21:17:38.${100_000 + n}+00` },
  }));
  const succeed = { verb: "succeed", result: undefined };
  const from = performance.now();
  for (let n = 0; n < EVENTS / 2; n++) {
    const attempt = attempts[n % attempts.length];
    story.started(attempt);
    story.settled(attempt, succeed);
  }
  return ((performance.now() - from) * 1e6) / (EVENTS / 2);
}

export async function measureMetrics(ground) {
  const found = Object.entries(LISTENERS).map(([what, make]) => ({ what, make, ns: [] }));
  for (let run = 0; run < RUNS; run++) for (const one of found) one.ns.push(heard(one.make()));
  const stories = ["nobody listens", "the listener of JobsMetricsModule"].map((what) => ({
    what: `start and success of a job, as a worker tells them: ${what}`,
    make: LISTENERS[what],
    ns: [],
  }));
  for (let run = 0; run < RUNS; run++) for (const one of stories) one.ns.push(told(one.make()));
  const cases = Object.keys(DRAINS).map((metrics) => ({ ...PLAIN, metrics, rates: [], cpu: [] }));
  for (let run = 0; run < RUNS; run++)
    for (const one of cases) {
      const { clientCpuMs, tookMs } = await drained(ground, {
        ...one,
        metrics: one.metrics === "none" ? null : one.metrics,
      });
      one.rates.push((JOBS / tookMs) * 1_000);
      one.cpu.push((clientCpuMs / JOBS) * 1_000);
    }
  const [without] = cases;
  const span = (values, digits) =>
    [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(digits)).join("–");
  return {
    title: "Metrics",
    why: `What an event costs: ${EVENTS / 1e6} million of two names and ${KINDS} kinds, emitted in a loop; the events themselves are copied, as they would be made. Then a backlog of ${JOBS / 1_000}k no-op jobs, drained by one worker process, without JobsMetricsModule, with it, and with a scrape a second. ${RUNS} runs, in turn; in parentheses the least and the most.`,
    header: ["what", "cost", "jobs"],
    rows: [
      ...[...found, ...stories].map(({ what, ns }) => [
        what,
        `${median(ns).toFixed(0)} ns (${span(ns, 0)})`,
        "",
      ]),
      ...cases.map(({ metrics, cpu, rates }) => [
        DRAINS[metrics],
        `${median(cpu).toFixed(1)} µs of CPU of the worker (${span(cpu, 1)})`,
        `${perSecond(median(rates))}, ${ratio(median(rates), median(without.rates))} × (${span(
          rates.map((rate) => rate / median(without.rates)),
          2,
        )})`,
      ]),
    ],
  };
}
