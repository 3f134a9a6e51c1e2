// What a run can tell of a workload: its name for readers, its unit, and which way is better.

export const FIGURES = {
  rate: { title: "jobs/s", better: "more", format: thousands },
  p50: { title: "p50, ms", better: "less", format: (ms) => ms.toFixed(2) },
  p95: { title: "p95, ms", better: "less", format: (ms) => ms.toFixed(2) },
  p99: { title: "p99, ms", better: "less", format: (ms) => ms.toFixed(2) },
  statsP95: { title: "p95 of counts, ms", better: "less", format: (ms) => ms.toFixed(1) },
  listsP95: { title: "p95 of lists, ms", better: "less", format: (ms) => ms.toFixed(1) },
  walBytes: {
    title: "WAL bytes a job",
    better: "less",
    format: (bytes) => String(Math.round(bytes)),
  },
  transactions: {
    title: "transactions a job",
    better: "less",
    format: (count) => count.toFixed(4),
  },
  clientMs: { title: "client CPU ms per 1,000", better: "less", format: (ms) => ms.toFixed(1) },
  serverMs: { title: "server CPU ms per 1,000", better: "less", format: (ms) => ms.toFixed(1) },
  rssMb: { title: "peak RSS of the worker, MB", better: "less", format: (mb) => mb.toFixed(0) },
};

function thousands(value) {
  return value >= 10_000 ? `${(value / 1_000).toFixed(1)}k` : String(Math.round(value));
}
