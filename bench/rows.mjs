// What must be reached: a figure of ours in a workload, against a figure of somebody else in the same run.
// `against` is a set of peers of the same workload, of whom the best one counts, or another workload of ours;
// without it the figure itself is compared. `figure` names what a workload's run returns.
import { ON_POSTGRES, REAL_PEERS } from "./peers/index.mjs";

const fastest = { peers: REAL_PEERS, called: "the fastest peer" };
const fastestOnPostgres = { peers: ON_POSTGRES, called: "the fastest on PostgreSQL" };
/** One of them makes a job that failed wait for seconds, whatever is set. */
const retriesAtOnce = {
  peers: REAL_PEERS.filter((peer) => peer !== "graphile-worker"),
  called: "the fastest peer that can retry at once",
};
const only = (peer, called) => ({ peers: [peer], called });
const ours = (workload, called) => ({ workload, called });

export const ROWS = [
  { workload: "drain", figure: "rate", against: fastest, atLeast: 1.4 },
  { workload: "drain", figure: "rate", against: only("bare", "the bare loop"), atLeast: 0.7 },
  { workload: "drain-400k", figure: "rate", against: fastest, atLeast: 1.2 },
  { workload: "drain-never-analysed", figure: "rate", against: fastest, atLeast: 3 },
  { workload: "drain-two-processes", figure: "rate", against: fastest, atLeast: 1.15 },
  { workload: "drain-1ms", figure: "rate", against: fastest, atLeast: 1.5 },
  { workload: "bulk", figure: "rate", against: fastest, atLeast: 1.3 },
  { workload: "enqueue-16", figure: "rate", against: fastestOnPostgres, atLeast: 8 },
  {
    workload: "enqueue-16",
    figure: "rate",
    against: only("bullmq-redis", "BullMQ on Redis"),
    atLeast: 0.7,
  },
  { workload: "enqueue-1", figure: "rate", against: fastestOnPostgres, atLeast: 1.3 },
  { workload: "flat-out-64", figure: "rate", against: fastest, atLeast: 1.1 },
  { workload: "flat-out-512", figure: "rate", against: fastest, atLeast: 1.3 },
  { workload: "latency-idle", figure: "p50", against: fastestOnPostgres, atMost: 0.8 },
  { workload: "latency-idle", figure: "p99", against: fastestOnPostgres, atMost: 1 },
  { workload: "latency-1000", figure: "rate", atLeast: 970 },
  { workload: "latency-1000", figure: "p99", atMost: 5 },
  { workload: "latency-1000", figure: "p99", against: fastestOnPostgres, atMost: 0.5 },
  { workload: "latency-1000-pinned", figure: "p99", atMost: 100 },
  { workload: "retries", figure: "rate", against: retriesAtOnce, atLeast: 2 },
  {
    workload: "horizon-pinned",
    figure: "rate",
    against: ours("horizon-free", "not pinned"),
    atLeast: 0.85,
  },
  ...["scheduled-1m", "finished-10m", "dead-1m"].map((workload) => ({
    workload,
    figure: "rate",
    against: ours("drain", "the drain of empty tables"),
    atLeast: 0.9,
  })),
  { workload: "drain", figure: "walBytes", atMost: 1_500 },
  { workload: "drain", figure: "clientMs", atMost: 12 },
  { workload: "drain", figure: "serverMs", atMost: 26 },
  {
    workload: "drain-enhanced",
    figure: "rate",
    against: ours("drain", "a plain handler"),
    atLeast: 0.5,
  },
  {
    workload: "drain-beside",
    figure: "rate",
    against: ours("drain", "without them"),
    atLeast: 0.95,
  },
  {
    workload: "limits-1000-keys",
    figure: "rate",
    against: ours("limits-none", "no limit"),
    atLeast: 0.5,
  },
  {
    workload: "limits-1000-keys",
    figure: "serverMs",
    against: ours("limits-10-keys", "that with 10 keys"),
    atMost: 1.3,
  },
  {
    workload: "limits-hot-key",
    figure: "rate",
    against: ours("limits-1000-keys", "without that key"),
    atLeast: 0.9,
  },
  { workload: "admin-reads", figure: "statsP95", atMost: 50 },
  { workload: "admin-reads", figure: "listsP95", atMost: 50 },
  {
    workload: "viewers-20",
    figure: "serverMs",
    against: ours("viewers-0", "nobody looks"),
    atMost: 1.03,
  },
  // the worker as it comes, then as docs/performance.md says to start it where memory is dear
  ...[
    ["drain-1m", "drain"],
    ["drain-lean-1m", "drain-lean"],
  ].flatMap(([workload, smaller]) => [
    { workload, figure: "rssMb", atMost: 200 },
    { workload, figure: "rssMb", against: ours(smaller, "that at 100k"), atMost: 1.1 },
  ]),
];
