import type { Vitals, WorkerVitals } from "../observe/vitals.js";
import { Family, type Sample } from "./family.js";
import type { LoopDelay, LoopDelays } from "../observe/loop-delay.js";

const one = (value: number): Sample[] => [{ labels: {}, value }];

/** How this process is: its workers, its connections and its event loop. */
export function processMetrics(prefix: string, vitals: Vitals, loop: LoopDelay): Family[] {
  /** A process without a worker has none of these. */
  const ofWorkers = (
    name: string,
    type: "counter" | "gauge",
    help: string,
    of: (worker: WorkerVitals) => number,
    together = (a: number, b: number) => a + b,
  ) =>
    new Family(`${prefix}${name}`, type, help, () => {
      const values = [...vitals.workers].map(of);
      return values.length === 0 ? [] : one(values.reduce((a, b) => together(a, b)));
    });
  const ofConnections = (name: string, help: string, read: () => Sample[]) =>
    new Family(`${prefix}${name}`, "gauge", help, read);
  const ofLoop = (name: keyof LoopDelays, help: string) =>
    new Family(
      `${prefix}event_loop_delay_${name}_seconds`,
      "gauge",
      `${help} since the last scrape that was 10 s ago or more.`,
      () => one(loop.read()[name]),
      "max",
    );
  return [
    ofWorkers("running", "gauge", "Handlers that run in this process.", ({ running }) => running),
    ofWorkers(
      "slots",
      "gauge",
      "How many handlers may run at once in this process.",
      ({ slots }) => slots,
    ),
    ofWorkers(
      "attempts_lost_total",
      "counter",
      "Attempts of this process that turned out to be in other hands: what they did is not written.",
      ({ lost }) => lost,
    ),
    ofWorkers(
      "leases_renewed_total",
      "counter",
      "Leases that this process has renewed.",
      ({ renewals }) => renewals,
    ),
    ofWorkers(
      "settles_failing_seconds",
      "gauge",
      "For how long nothing that ended could be written; 0 when it can.",
      ({ unsettledMs }) => unsettledMs / 1_000,
      Math.max,
    ),
    ofWorkers(
      "worker_stuck",
      "gauge",
      "1 while claims stand still although the database answers, and no repair has helped.",
      ({ stuck }) => (stuck ? 1 : 0),
      Math.max,
    ),
    ofConnections(
      "connections",
      "Connections of this process to PostgreSQL, by what they are for.",
      () => {
        const { sessions, reserved, lent, idle } = vitals.connections;
        return Object.entries({ sessions, reserved, lent, idle }).map(([use, value]) => ({
          labels: { use },
          value,
        }));
      },
    ),
    ofConnections("connections_limit", "The most connections that this process opens.", () =>
      one(vitals.connections.limit),
    ),
    ofConnections(
      "connections_waiting",
      "Calls of job.transaction() that wait for a connection.",
      () => one(vitals.connections.waiting),
    ),
    ofLoop("p50", "Median delay of the event loop"),
    ofLoop("p99", "Delay of the event loop that one in a hundred exceeds"),
    ofLoop("max", "Longest delay of the event loop"),
  ];
}
