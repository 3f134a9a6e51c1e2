import { Family, type Sample } from "./family.js";
import type { DatabaseSample, Tables } from "./database-sample.js";
import { type Labels, OTHER } from "./labels.js";

const STATES = [
  "unfinished",
  "succeeded",
  "skipped",
  "cancelled",
  "dead",
  "archived",
  "pruned",
  "deleted",
] as const;

type Row = Sample["labels"] & { queue: string };
type Add = (a: number, b: number) => number;

const sum: Add = (a, b) => a + b;

/** What the tables tell of all queues, whoever is asked: with several replicas take the largest, not the sum. */
export function databaseMetrics(prefix: string, sample: DatabaseSample, labels: Labels): Family[] {
  /** One value for each set of labels: what has no label value of its own is put together. */
  const gauge = (
    name: string,
    help: string,
    of: (tables: Tables) => [Row, number][],
    together: Add = sum,
  ) =>
    new Family(
      `${prefix}${name}`,
      "gauge",
      help,
      async () => {
        const tables = await sample.read();
        return tables ? grouped(of(tables), labels, together) : [];
      },
      "max",
    );
  return [
    new Family(
      `${prefix}database_up`,
      "gauge",
      "Whether the job tables could be read: 0 when they could not, and then nothing else is said of them.",
      async () => [{ labels: {}, value: (await sample.read()) ? 1 : 0 }],
      "max",
    ),
    gauge(
      "queue_jobs",
      "Jobs by state, finished ones as far back as they are kept; pruned: that are not kept any more; deleted: that a person took away.",
      ({ health, counts }) => [
        // A queue without a job has no counters yet.
        ...health.flatMap(({ queue }) => STATES.map((state) => entry({ queue, state }, 0))),
        ...counts.flatMap((one) =>
          STATES.map((state) => entry({ queue: one.queue, state }, one[state])),
        ),
      ],
    ),
    gauge("dead_letters", "Dead letters that are not archived, by kind.", ({ counts }) =>
      counts.map(({ queue, kind, dead }) => entry({ queue, kind }, dead)),
    ),
    gauge("queue_backlog", "Jobs that could run now, counted up to 10,001 a queue.", ({ health }) =>
      health.map(({ queue, backlog }) => entry({ queue }, backlog)),
    ),
    gauge(
      "queue_lag_seconds",
      "For how long the oldest job that could run now has been due; 0 without one.",
      ({ health }) => health.map(({ queue, lagMs }) => entry({ queue }, lagMs / 1_000)),
      Math.max,
    ),
    gauge(
      "queue_oldest_due_timestamp_seconds",
      "When the oldest job that could run now was due; absent without one.",
      ({ health, readAt }) =>
        health
          .filter(({ oldestJob }) => oldestJob !== null)
          .map(({ queue, lagMs }) => entry({ queue }, (readAt - lagMs) / 1_000)),
      Math.min,
    ),
    gauge(
      "queue_expired_leases",
      "Claims that their worker has not renewed and nobody has taken over.",
      ({ health }) => health.map(({ queue, expiredLeases }) => entry({ queue }, expiredLeases)),
    ),
    gauge(
      "queue_unknown_kinds",
      "Kinds with waiting jobs that no live worker has a handler for.",
      ({ health, unknownKinds }) => [
        ...health.map(({ queue }) => entry({ queue }, 0)),
        ...unknownKinds.map(({ queue }) => entry({ queue }, 1)),
      ],
    ),
    gauge(
      "queue_paused",
      "1 for a queue that is paused.",
      ({ pauses }) => pauses.map(({ name, paused }) => entry({ queue: name }, paused ? 1 : 0)),
      Math.max,
    ),
    gauge("queue_paused_kinds", "Kinds of the queue that are paused.", ({ pauses }) =>
      pauses.map(({ name, kinds }) => entry({ queue: name }, kinds.length)),
    ),
    gauge(
      "queue_workers",
      "Live workers that serve the queue.",
      ({ health, workers }) => {
        const served = workers.filter(({ alive }) => alive).map(({ kinds }) => kinds);
        return health.map(({ queue }) =>
          entry({ queue }, served.filter((kinds) => Object.hasOwn(kinds, queue)).length),
        );
      },
      Math.max,
    ),
    new Family(
      `${prefix}workers`,
      "gauge",
      "Live workers.",
      async () => {
        const tables = await sample.read();
        return tables
          ? [{ labels: {}, value: tables.workers.filter(({ alive }) => alive).length }]
          : [];
      },
      "max",
    ),
  ];
}

const entry = (labels: Row, value: number): [Row, number] => [labels, value];

function grouped(rows: readonly [Row, number][], labels: Labels, together: Add): Sample[] {
  const found = new Map<string, Sample>();
  for (const [row, value] of rows) {
    const queue = labels.queue(row.queue);
    const bounded: Row = { ...row, queue };
    if (row.kind !== undefined)
      bounded.kind = queue === row.queue ? labels.kind(queue, String(row.kind)) : OTHER;
    const key = JSON.stringify(bounded);
    const known = found.get(key);
    if (known) known.value = together(known.value, value);
    else found.set(key, { labels: bounded, value });
  }
  return [...found.values()];
}
