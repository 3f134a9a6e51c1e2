// What is measured. `full` is the size of a run, `quick` that of a short one; without it, it is left out there. Where
// jobs are `awaited`, a worker is there before them.
import { GATE } from "../gate.mjs";
import { ALL_PEERS } from "../peers/index.mjs";
import { adminReads, watchedDrain } from "./admin.mjs";
import { drain } from "./drain.mjs";
import { enqueue } from "./enqueue.mjs";
import { flatOut } from "./flat-out.mjs";
import { horizon } from "./horizon.mjs";
import { limited } from "./limits.mjs";
import { latencyIdle, latencySteady } from "./latency.mjs";

const SECONDS = 2;
const QUICK_SECONDS = 0.7;
/** One job a transaction: a tenth of the jobs says as much. */
const SLOW = { "bullmq-postgres": 0.1 };
/** Who sends each call by itself is asked in its own fastest way; but not who would work it off for minutes. */
const IN_BULK = Object.fromEntries(
  ["pg-boss", "graphile-worker", "bullmq-redis"].map((peer) => [peer, { callers: 1, size: 1_000 }]),
);
const TENTH =
  "BullMQ on PostgreSQL, which runs each job in a transaction or two of its own, is given a tenth of the jobs.";
const BULK_NOTE =
  "pg-boss, graphile-worker and BullMQ on Redis are given lists of 1,000 by one caller: so many calls of one job each are slower for them.";
const QUICK_PEERS = ["ours", "pg-boss", "graphile-worker", "bullmq-redis", "bare"];
/** Where BullMQ on PostgreSQL is the fastest there, or nearly. */
const QUICK_ON_POSTGRES = [...QUICK_PEERS, "bullmq-postgres"];
const QUICK_LEFT_OUT = "the quick benchmark has fewer peers";
const LEFT_OUT =
  "so that all of it ends within 90 minutes; in the drain of 100k they are the slowest peers";

/** Longer than autovacuum sleeps, so that it comes by. */
const PINNED_SECONDS = 90;

/** How docs/performance.md says to start a worker that shall stay small. */
const LEAN = ["--max-semi-space-size=16"];

const WORKERS = { processes: 4, slots: 25 };
const PER_KEY = { limit: { key: "tenant", max: 3 } };
const LIMITED = [
  { name: "limits-none", title: "no limit", keys: 1_000, jobs: 40_000 },
  {
    name: "limits-1000-keys",
    title: "3 at once for each of 1,000 keys",
    limits: PER_KEY,
    keys: 1_000,
    jobs: 40_000,
  },
  {
    name: "limits-10-keys",
    title: "3 at once for each of 10 keys",
    limits: PER_KEY,
    keys: 10,
    jobs: 15_000,
  },
  {
    name: "limits-hot-key",
    title: "3 at once for each of 1,000 keys, beside 100,000 jobs of another key",
    limits: PER_KEY,
    keys: 1_000,
    jobs: 40_000,
    hot: 100_000,
  },
  {
    name: "limits-all",
    title: "50 at once for all",
    rounds: 1,
    limits: { limit: { max: 50 } },
    keys: 1_000,
    jobs: 20_000,
  },
  {
    name: "limits-rate",
    title: "2,000 a second for all",
    rounds: 1,
    limits: { rate: { max: 2_000, per: "1s" } },
    keys: 1_000,
    jobs: 10_000,
  },
];

const without = (...left) => ALL_PEERS.filter((peer) => !left.includes(peer));
/** The bare loop knows no transactions of others, and its latency is not its point. */
const WITH_LATENCY = without("bare");

export const WORKLOADS = [
  {
    name: "enqueue-1",
    title: "single enqueue, 1 caller",
    peers: ALL_PEERS,
    run: enqueue,
    full: { callers: 1, seconds: SECONDS },
  },
  {
    name: "enqueue-16",
    title: "single enqueue, 16 callers",
    peers: ALL_PEERS,
    run: enqueue,
    full: { callers: 16, seconds: SECONDS },
    quick: { callers: 16, seconds: QUICK_SECONDS },
    quickPeers: QUICK_ON_POSTGRES,
  },
  {
    name: "bulk",
    title: "bulk by 1,000, 1 caller",
    peers: ALL_PEERS,
    run: enqueue,
    full: { callers: 1, seconds: SECONDS, size: 1_000 },
    quick: { callers: 1, seconds: QUICK_SECONDS, size: 1_000 },
  },
  {
    name: "bulk-4",
    title: "bulk by 1,000, 4 callers",
    peers: ALL_PEERS,
    run: enqueue,
    full: { callers: 4, seconds: SECONDS, size: 1_000 },
  },
  {
    name: "drain",
    title: "drain no-ops, 1 process",
    note: `From the first handler's start until the tables say that nothing is left. ${TENTH} graphile-worker would be faster with another plan of its claim: measured apart, with enable_seqscan = off, it took 21 to 22.5 µs of the server a job instead of 25 to 26; beside 1M scheduled jobs it is as fast without.`,
    peers: ALL_PEERS,
    share: SLOW,
    run: drain,
    full: { jobs: 100_000 },
    quick: { jobs: 40_000 },
  },
  {
    name: "drain-400k",
    title: "drain no-ops, 1 process",
    peers: ["ours", "pg-boss", "graphile-worker"],
    leftOut: LEFT_OUT,
    run: drain,
    full: { jobs: 400_000 },
  },
  {
    name: "drain-never-analysed",
    title: "drain no-ops, tables never analysed",
    peers: ["ours", "pg-boss", "graphile-worker"],
    leftOut: LEFT_OUT,
    run: drain,
    full: { jobs: 400_000, analysed: false },
  },
  {
    name: "drain-two-processes",
    title: "drain no-ops, 2 processes",
    note: "A run in which one of them ran fewer than a fifth of the jobs has failed: with 400k the second has begun long before the first would be through. BullMQ on PostgreSQL is given a fortieth of the jobs.",
    peers: without("bullmq-redis", "floor", "bare"),
    leftOut: LEFT_OUT,
    share: { "bullmq-postgres": 0.025 },
    run: drain,
    full: { jobs: 400_000, processes: 2 },
  },
  {
    name: "drain-1ms",
    title: "drain, handlers await 1 ms",
    note: TENTH,
    peers: ALL_PEERS,
    share: SLOW,
    run: drain,
    full: { jobs: 100_000, handler: "waits-1ms" },
    quick: { jobs: 20_000, handler: "waits-1ms" },
  },
  {
    name: "drain-enhanced",
    title: "drain, handler with interceptor and pipe",
    peers: ["ours"],
    run: drain,
    full: { jobs: 100_000, enhanced: true },
    quick: { jobs: 40_000, enhanced: true },
  },
  {
    name: "drain-beside",
    title: "drain no-ops, in an app with a schedule, limits and a subscriber in another queue",
    peers: ["ours"],
    run: drain,
    full: { jobs: 100_000, beside: true },
    quick: { jobs: 40_000, beside: true },
  },
  {
    name: "drain-1m",
    title: "drain no-ops, Node.js as it comes",
    peers: ["ours"],
    run: drain,
    full: { jobs: 1_000_000 },
  },
  ...[100_000, 1_000_000].map((jobs) => ({
    name: jobs === 100_000 ? "drain-lean" : "drain-lean-1m",
    title: `drain no-ops, for a small worker: node ${LEAN.join(" ")}`,
    peers: ["ours"],
    run: drain,
    full: { jobs, flags: LEAN },
  })),
  {
    name: "retries",
    title: "each job fails twice, then succeeds; without stalls",
    note: `${TENTH} Pauses in which no handler began do not count. With graphile-worker nobody can have this: a job that failed comes back after e, then e² seconds, whatever is set; its figure is what it does apart from these ten seconds.`,
    peers: ALL_PEERS,
    share: SLOW,

    run: drain,
    full: { jobs: 20_000, handler: "fails-twice", runsEach: 3, stalls: false },
    quick: { jobs: 5_000, handler: "fails-twice", runsEach: 3, stalls: false },
    quickPeers: QUICK_PEERS.filter((peer) => peer !== "graphile-worker"), // its backoff takes 10 s
  },
  {
    name: "flat-out-64",
    title: "flat out, 64 callers and a worker process",
    note: BULK_NOTE,
    peers: ALL_PEERS,
    run: flatOut,
    awaited: true,
    instead: IN_BULK,
    full: { callers: 64, seconds: 5 },
    quick: { callers: 64, seconds: 1 },
  },
  {
    name: "flat-out-512",
    title: "flat out, 512 callers and a worker process",
    note: BULK_NOTE,
    peers: ALL_PEERS,
    run: flatOut,
    awaited: true,
    instead: IN_BULK,
    full: { callers: 512, seconds: 5 },
  },
  {
    name: "latency-idle",
    title: "latency, idle, from process to process",
    note: "One job every 30 to 50 ms, from the call to the first line of the handler; the first 20 do not count. graphile-worker fetches without its delay, here and below.",
    peers: WITH_LATENCY,
    run: latencyIdle,
    awaited: true,
    full: { jobs: 200 },
    quick: { jobs: 60 },
    quickPeers: QUICK_ON_POSTGRES.filter((peer) => peer !== "bare"),
  },
  {
    name: "latency-1000",
    title: "latency at 1,000 jobs/s, half of them in 5 ms transactions",
    note: "Half of them by single calls of one client, half in the transactions of 8 more connections, where it counts from the commit. All are asked for 1,000 a second; calls that are not answered in time pile up, and jobs/s tells of it. The first half second does not count: processes connect and meet their code.",
    peers: WITH_LATENCY,
    run: latencySteady,
    awaited: true,
    full: { perSecond: 1_000, seconds: 5, connections: 8, holdMs: 5, mayLag: true },
  },
  {
    name: "latency-1000-pinned",
    title: "the same, with a pinned horizon, after 100k jobs",
    peers: ["ours"],
    run: latencySteady,
    awaited: true,
    full: { perSecond: 1_000, seconds: 5, connections: 8, holdMs: 5, pinnedFor: 100_000 },
  },
  {
    name: "replicas-1000",
    title: "latency at 1,000 jobs/s, 12 worker processes of 10 slots each",
    note: "By single calls of one client. Each hint reaches all the processes, and all but one of them look in vain: the server's CPU says what that costs, and jobs/s who could not keep the pace.",
    peers: ["ours", "pg-boss", "graphile-worker", "bullmq-redis"],
    leftOut: LEFT_OUT,
    run: latencySteady,
    awaited: true,
    full: { perSecond: 1_000, seconds: 5, processes: 12, slots: 10, mayLag: true },
  },
  {
    name: "steady",
    title: "60 s of enqueue and work, 64 callers and a worker process",
    note: BULK_NOTE,
    peers: ["ours", "pg-boss", "graphile-worker", "bullmq-redis"],
    leftOut: LEFT_OUT,
    rounds: 1,
    run: flatOut,
    awaited: true,
    instead: IN_BULK,
    full: { callers: 64, seconds: 60 },
  },
  ...[false, true].map((pinned) => ({
    name: pinned ? "horizon-pinned" : "horizon-free",
    title: `enqueue and run, jobs 500k to 600k${pinned ? `, the horizon pinned since ${PINNED_SECONDS} s` : ""}`,
    note: `The 500k before them are spread over ${PINNED_SECONDS} s, so that autovacuum comes by.`,
    peers: ["ours"],
    run: horizon,
    awaited: true,
    full: { before: 500_000, counted: 100_000, pinned, seconds: PINNED_SECONDS },
  })),
  {
    name: "scheduled-1m",
    title: "drain beside 1M scheduled jobs",
    note: "graphile-worker is faster here than on empty tables, by its plan: see there.",
    peers: ["ours", "pg-boss", "graphile-worker"],
    leftOut: LEFT_OUT,
    seed: { what: "scheduled", count: 1_000_000 },
    run: drain,
    full: { jobs: 100_000 },
  },
  {
    name: "finished-10m",
    title: "drain beside 10M finished jobs",
    peers: ["ours"],
    seed: { what: "finished", count: 10_000_000 },
    run: drain,
    full: { jobs: 100_000 },
  },
  {
    name: "dead-1m",
    title: "drain beside 1M dead letters",
    peers: ["ours"],
    seed: { what: "dead", count: 1_000_000 },
    run: drain,
    full: { jobs: 100_000 },
  },
  {
    name: "admin-reads",
    title: "admin API over 10M finished, 1M dead and 1M waiting jobs, 20 who follow its events",
    note: "Each of thirteen answers 40 times; the p95 is that of the slowest of them. One payload in a thousand has half a megabyte, one error in a hundred 27 kB.",
    peers: ["ours"],
    seed: { what: "everything", count: 10_000_000 },
    run: adminReads,
    full: { viewers: 20, rounds: 40 },
  },
  ...[0, 20].map((viewers) => ({
    name: `viewers-${viewers}`,
    title:
      viewers === 0
        ? "drain no-ops, nobody looks"
        : `drain no-ops, ${viewers} follow the events of an admin app`,
    peers: ["ours"],
    run: watchedDrain,
    full: { jobs: 400_000, viewers },
  })),
  ...LIMITED.map(({ name, title, rounds, ...size }) => ({
    name,
    title: `handlers of 5 ms, ${WORKERS.processes} processes of ${WORKERS.slots} slots, ${title}`,
    peers: ["ours"],
    run: limited,
    awaited: true,
    ...(rounds ? { rounds } : {}),
    full: { ...WORKERS, ...size },
  })),
];

/** The workloads of a kind of benchmark, each with its peers and the size of a run. */
export function workloadsFor({ quick, gate = false }) {
  if (gate)
    return WORKLOADS.filter(({ name }) => GATE.workloads.includes(name)).map((workload) => ({
      ...sized(workload, workload.quick),
      peers: GATE.peers,
    }));
  if (!quick) return WORKLOADS.map((workload) => sized(workload, workload.full));
  return WORKLOADS.filter((workload) => workload.quick).map((workload) => ({
    ...sized(workload, workload.quick),
    peers: (workload.quickPeers ?? QUICK_PEERS).filter((peer) => workload.peers.includes(peer)),
    leftOut: QUICK_LEFT_OUT,
  }));
}

function sized(workload, size) {
  const { title } = workload;
  return { ...workload, size, title: size.jobs ? `${title}; ${jobsOf(size.jobs)}` : title };
}

const jobsOf = (count) =>
  count >= 1_000_000
    ? `${count / 1e6}M jobs`
    : count >= 1_000
      ? `${count / 1e3}k jobs`
      : `${count} jobs`;

/** The size of one peer's run. */
export function sizeOf({ size, share = {}, instead = {} }, peer) {
  const own = { ...size, ...instead[peer] };
  return own.jobs === undefined ? own : { ...own, jobs: own.jobs * (share[peer] ?? 1) };
}
