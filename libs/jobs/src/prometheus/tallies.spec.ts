import type { JobEvent, JobEventName } from "../job/event.js";
import { eventMetrics } from "./event-metrics.js";
import { Labels } from "./labels.js";
import { Tallies } from "./tallies.js";

function open(most = 200) {
  const tallies = new Tallies(new Labels(most, () => {}));
  const families = eventMetrics("jobs_", tallies);
  const hear = (event: JobEventName, more: Partial<JobEvent> = {}) =>
    tallies.hear({ event, id: "1-1", kind: "k", queue: "q", ...more });
  const read = async (name: string) =>
    (await families.find((one) => one.name === name)!.get()).values;
  /** Sums up what has these labels. */
  const events = async (wanted: Record<string, string>) =>
    (await read("jobs_events_total"))
      .filter(({ labels }) => Object.entries(wanted).every(([key, text]) => labels[key] === text))
      .reduce((sum, { value }) => sum + value, 0);
  return { tallies, hear, read, events };
}

it("counts events, and says in which state they left the job", async () => {
  const { hear, read } = open();
  hear("enqueued");
  hear("enqueued");
  hear("cancelled");
  expect(await read("jobs_events_total")).toEqual([
    { labels: { event: "enqueued", queue: "q", kind: "k", state: "queued" }, value: 2 },
    { labels: { event: "cancelled", queue: "q", kind: "k", state: "cancelled" }, value: 1 },
  ]);
});

it("tells of what runs here from 0 on: the first failure is one for Prometheus too", async () => {
  const { hear, read } = open();
  hear("started");
  const found = (await read("jobs_events_total")).map(({ labels, value }) => [labels.event, value]);
  expect(Object.fromEntries(found)).toEqual({
    started: 1,
    succeeded: 0,
    retried: 0,
    died: 0,
    lost: 0,
  });
});

it("tells of what is expected to run here from 0 on, before anything has happened", async () => {
  const { tallies, hear, read } = open();
  tallies.expect({ queue: "q", kind: "k" });
  const values = async () =>
    (await read("jobs_events_total")).map(({ labels, value }) => [labels.event, value]);
  const from = Object.fromEntries(await values());
  expect(from).toEqual({ started: 0, succeeded: 0, retried: 0, died: 0, lost: 0 });
  hear("started");
  hear("died");
  expect(Object.fromEntries(await values())).toEqual({ ...from, started: 1, died: 1 });
  expect([...tallies]).toHaveLength(1);
});

it("has seconds, and attempts of what has ended", async () => {
  const { hear, read } = open();
  hear("started", { attempt: 1, waitMs: 250 });
  hear("retried", { attempt: 1, durationMs: 1_500 });
  hear("started", { attempt: 2 });
  hear("died", { attempt: 2, durationMs: 500 });
  const sumOf = async (name: string) => {
    const values = await read(name);
    const of = (suffix: string) =>
      values.find(({ metricName }) => metricName === `${name}_${suffix}`)!.value;
    return [of("sum"), of("count")];
  };
  expect(await sumOf("jobs_wait_duration_seconds")).toEqual([0.25, 1]);
  expect(await sumOf("jobs_run_duration_seconds")).toEqual([2, 2]);
  expect(await sumOf("jobs_attempts")).toEqual([2, 1]);
});

it("keeps no more names than it may, and loses no event", async () => {
  const { tallies, hear, events } = open(3);
  for (let n = 0; n < 1_000; n++) hear("enqueued", { queue: `q${n % 5}`, kind: `k${n}` });
  expect([...tallies].length).toBeLessThanOrEqual(3 + 3 + 1);
  expect(await events({})).toBe(1_000);
  expect(await events({ queue: "other", kind: "other" })).toBe(400);
  expect(await events({ queue: "q0", kind: "k0" })).toBe(1);
  expect(await events({ queue: "q0", kind: "other" })).toBe(199);
});
