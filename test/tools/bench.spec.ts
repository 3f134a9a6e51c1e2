import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { steadily } from "../../bench/actor/callers.mjs";
import { now } from "../../bench/actor/clock.mjs";
import { Ledger } from "../../bench/actor/ledger.mjs";
import { settled } from "../../bench/actor/settled.mjs";
import { choose } from "../../bench/choice.mjs";
import { FIGURES } from "../../bench/figures.mjs";
import { GATE, judgeShares, readBaseline, sayShare, sharesOf } from "../../bench/gate.mjs";
import { Medians, type Run, failures, judge as judgeOn } from "../../bench/judge.mjs";
import { median, percentile, spread } from "../../bench/numbers.mjs";
import { UsageError, parseOptions } from "../../bench/options.mjs";
import { ALL_PEERS, ON_POSTGRES, REAL_PEERS } from "../../bench/peers/index.mjs";
import { plan } from "../../bench/plan.mjs";
import { report, rowsTable } from "../../bench/report.mjs";
import { ROWS, type Row } from "../../bench/rows.mjs";
import { settledExactlyOnce } from "../../bench/workloads/exactly-once.mjs";
import { keptPace } from "../../bench/workloads/pace.mjs";
import { tookPart } from "../../bench/workloads/took-part.mjs";
import { type Size, WORKLOADS, sizeOf, workloadsFor } from "../../bench/workloads/index.mjs";

const root = path.resolve(import.meta.dirname, "../..");

const runsOf = (workload: string, peer: string, ...rates: number[]): Run[] =>
  rates.map((rate, round) => ({ workload, peer, round, figures: { rate } }));

const everyWorkload = ["drain", "latency", "a", "b"].map((name) => ({
  name,
  peers: ["ours", "pg-boss", "graphile-worker", "bullmq-redis"],
}));
const judge = (row: Row, medians: Medians, ...without: string[]) =>
  judgeOn(row, medians, { workloads: everyWorkload, without });

describe("the numbers of the benchmark", () => {
  it("the median is the middle one, or lies between the two in the middle", () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([10, 1, 2, 4])).toBe(3);
    expect(median([])).toBeUndefined();
  });

  it("numbers are ordered as numbers", () => {
    expect(spread([100, 9, 20])).toEqual({ least: 9, most: 100 });
  });

  it("a percentile is the nearest rank", () => {
    const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect([0.5, 0.95, 0.99, 1].map((share) => percentile(hundred, share))).toEqual([
      50, 95, 99, 100,
    ]);
    expect(percentile([7], 0.99)).toBe(7);
  });
});

describe("when all is settled", () => {
  it("is when the look that found so was sent, however long it took", async () => {
    const sent: number[] = [];
    const left = async () => {
      sent.push(now());
      await sleep(20);
      return sent.length < 3;
    };
    const { at, looks } = await settled(left);
    expect(looks).toBe(3);
    expect(at - sent[1]!).toBeGreaterThan(19);
    expect(at).toBeLessThanOrEqual(sent[2]!);
  });

  it("is never, after a while", async () => {
    await expect(settled(async () => true, 0)).rejects.toThrow("some are not settled");
  });
});

describe("a steady pace", () => {
  it("is that at which the calls came through, and not that of the calls", async () => {
    let line = Promise.resolve();
    const inLine = async () => {
      line = line.then(() => sleep(4));
      await line;
      return now();
    };
    const late = await steadily({ count: 50, perSecond: 1_000 }, inLine);
    expect(late.achieved).toBeLessThanOrEqual(260);
    expect(late.sentAt[49]! - late.sentAt[0]!).toBeGreaterThan(150);
  });

  it("is to be kept", () => {
    expect(() => keptPace(970, 1_000)).not.toThrow();
    expect(() => keptPace(960, 1_000)).toThrow(
      "the pace was 960 jobs a second, expected 1000, or at least 97 % of it",
    );
  });
});

it("of two worker processes each has run a fifth of the jobs, or it was a run of one", () => {
  const report = (first: number, count: number) => {
    const runs = new Uint8Array(100);
    return { runs: runs.fill(1, first, first + count) };
  };
  expect(() => tookPart([report(0, 100)])).not.toThrow();
  expect(() => tookPart([report(0, 80), report(80, 20)])).not.toThrow();
  expect(() => tookPart([report(0, 81), report(81, 19)])).toThrow(
    "one of 2 worker processes ran 19 % of the jobs, expected at least 20 %",
  );
});

describe("a row of the benchmark", () => {
  const against: Row = {
    workload: "drain",
    figure: "rate",
    against: { called: "the fastest", peers: ["pg-boss", "graphile-worker"] },
    atLeast: 1.4,
  };

  it("holds our median against that of the best of the peers", () => {
    const medians = new Medians([
      ...runsOf("drain", "ours", 10, 140, 150),
      ...runsOf("drain", "pg-boss", 90, 100, 400),
      ...runsOf("drain", "graphile-worker", 80, 80, 80),
    ]);
    const reached = judge(against, medians);
    expect(reached).toMatchObject({ state: "reached", base: { by: "pg-boss", value: 100 } });
    expect(reached.found).toBeCloseTo(1.4);
    expect(judge({ ...against, atLeast: 1.41 }, medians).state).toBe("missed");
  });

  it("of what should be small, the least is the best", () => {
    const medians = new Medians([
      { workload: "latency", peer: "ours", figures: { p99: 2 } },
      { workload: "latency", peer: "pg-boss", figures: { p99: 8 } },
      { workload: "latency", peer: "graphile-worker", figures: { p99: 4 } },
    ]);
    const row = { ...against, workload: "latency", figure: "p99", atLeast: undefined, atMost: 0.5 };
    expect(judge(row, medians)).toMatchObject({ state: "reached", found: 0.5 });
    expect(judge({ ...row, atMost: 0.4 }, medians).state).toBe("missed");
  });

  it("may be a figure alone, or ours against ours", () => {
    const medians = new Medians([...runsOf("a", "ours", 90), ...runsOf("b", "ours", 100)]);
    expect(judge({ workload: "a", figure: "rate", atLeast: 91 }, medians).state).toBe("missed");
    const row = { workload: "a", figure: "rate", against: { called: "b", workload: "b" } };
    expect(judge({ ...row, atLeast: 0.9 }, medians)).toMatchObject({ state: "reached" });
  });

  it("is incomplete when somebody that it names has not run, or not each time", () => {
    const two = [...runsOf("drain", "ours", 140), ...runsOf("drain", "pg-boss", 100)];
    expect(judge(against, new Medians(two))).toMatchObject({
      state: "incomplete",
      found: 1.4,
      lacks: ["drain has not run with graphile-worker: add them to --only and --peers"],
    });
    const three = [...two, ...runsOf("drain", "graphile-worker", 90)];
    expect(judge(against, new Medians(three)).state).toBe("reached");
    const failed: Run = { workload: "drain", peer: "graphile-worker" };
    expect(judge(against, new Medians([...three, failed]))).toMatchObject({
      state: "incomplete",
      lacks: ["1 of 2 runs of drain with graphile-worker went wrong"],
    });
    const oursFailed: Run = { workload: "drain", peer: "ours" };
    expect(judge(against, new Medians([...three, oursFailed])).state).toBe("incomplete");
    const strangers = new Medians([...three, { workload: "drain", peer: "bullmq-redis" }]);
    expect(judge(against, strangers).state).toBe("reached");
  });

  it("names whom there is no server for, and is judged by the others where there are some", () => {
    const medians = new Medians([...runsOf("a", "ours", 9), ...runsOf("a", "pg-boss", 3)]);
    const redis = { called: "BullMQ on Redis", peers: ["bullmq-redis"] };
    const row: Row = { workload: "a", figure: "rate", against: redis, atLeast: 2 };
    expect(judge(row, medians, "bullmq-redis").state).toBe("no Redis");
    expect(judge(row, medians).state).toBe("not measured");
    const either = { called: "the fastest", peers: ["pg-boss", "bullmq-redis"] };
    expect(judge({ ...row, against: either }, medians, "bullmq-redis").state).toBe("reached");
    expect(judge({ ...row, against: either }, medians).state).toBe("incomplete");
  });

  it("that was asked for does not pass a check without its base, and one that was not does", () => {
    const row = { workload: "a", figure: "rate", against: { called: "b", workload: "b" } };
    const judged = judge({ ...row, atLeast: 0.9 }, new Medians(runsOf("a", "ours", 9)));
    expect(judged.lacks).toEqual(["b has not run with ours: add them to --only and --peers"]);
    expect(failures([judged], [{ name: "a" }])).toEqual([judged]);
    expect(failures([judged], [{ name: "b" }])).toEqual([]);
    const states = (["reached", "no Redis", "missed", "incomplete"] as const).map((state) => ({
      ...judged,
      state,
    }));
    expect(failures(states, [{ name: "a" }])).toEqual(states.slice(2));
  });

  it("is not measured without ours, or without anybody else; a run that failed is none", () => {
    const ours = runsOf("drain", "ours", 140);
    const failed: Run = { workload: "drain", peer: "pg-boss" };
    expect(judge(against, new Medians([...ours, failed])).state).toBe("not measured");
    expect(judge(against, new Medians(runsOf("drain", "pg-boss", 1))).state).toBe("not measured");
  });
});

describe("what must be reached", () => {
  const names = WORKLOADS.map(({ name }) => name);

  it.each(ROWS.map((row) => [`${row.workload} ${row.figure} ${row.against?.called ?? ""}`, row]))(
    "%s: there is such a workload, with those it is held against",
    (_, row) => {
      const { workload, figure, against, atLeast, atMost } = row as Row;
      const found = WORKLOADS.find(({ name }) => name === workload)!;
      expect(found.peers).toContain("ours");
      expect(FIGURES).toHaveProperty(figure);
      expect([atLeast, atMost].filter((limit) => limit !== undefined)).toHaveLength(1);
      expect(names).toContain(against?.workload ?? workload);
      const base = against?.peers ?? ["ours"];
      expect(found.peers.some((peer) => base.includes(peer))).toBe(true);
    },
  );

  it("memory is judged with no flag of Node.js and with one, and titles say which", () => {
    const judged = ROWS.filter(({ figure }) => figure === "rssMb").map(({ workload }) => workload);
    expect(judged).toEqual(["drain-1m", "drain-1m", "drain-lean-1m", "drain-lean-1m"]);
    for (const { title, full } of WORKLOADS)
      expect(title.includes("--max-semi-space-size")).toBe(full["flags"] !== undefined);
  });

  it("names are unique, peers known, and each peer has its file", () => {
    expect(new Set(names).size).toBe(names.length);
    for (const { peers } of WORKLOADS)
      expect(ALL_PEERS).toEqual(expect.arrayContaining([...peers]));
    for (const peer of ALL_PEERS)
      expect(existsSync(path.join(root, "bench/peers", `${peer}.mjs`))).toBe(true);
  });

  it("the quick one has every peer that it compares, and smaller sizes", () => {
    const quick = workloadsFor({ quick: true });
    expect(quick.length).toBeGreaterThan(5);
    for (const workload of quick) {
      expect(workload.peers).toContain("ours");
      const { jobs = 0 } = workload.size;
      expect(jobs).toBeLessThan(workload.full.jobs ?? 1);
    }
  });

  it("workers wait for jobs where jobs come meanwhile, and nowhere else", () => {
    const awaiting = WORKLOADS.filter(({ awaited }) => awaited).map(({ name }) => name);
    const meanwhile = /^(flat-out|latency|replicas|steady|horizon|limits)/;
    expect(awaiting).toEqual(names.filter((name) => meanwhile.test(name)));
  });

  it("of a list of peers it says so when some of them were not measured", () => {
    const [row] = ROWS.filter(({ workload }) => workload === "enqueue-16");
    const peers = ["ours", "pg-boss", "graphile-worker"];
    const workloads = [{ name: "enqueue-16", title: "one", peers }];
    const medians = new Medians(peers.flatMap((peer) => runsOf("enqueue-16", peer, 9)));
    const [, , line] = rowsTable([judgeOn(row!, medians, { workloads })], workloads);
    expect(line).toContain("the fastest on PostgreSQL of those measured, pg-boss: 9");
  });

  it("the quick one has all who are on PostgreSQL where the fastest of them is the bound", () => {
    const quick = workloadsFor({ quick: true });
    const bounds = ROWS.filter(({ against }) => against?.called === "the fastest on PostgreSQL");
    const judged = quick.filter(({ name }) => bounds.some(({ workload }) => workload === name));
    expect(judged.map(({ name }) => name)).toEqual(["enqueue-16", "latency-idle"]);
    for (const { peers } of judged) expect(peers).toEqual(expect.arrayContaining(ON_POSTGRES));
  });

  it("where one of those whom somebody would use is left out, it says why", () => {
    for (const { name, peers, leftOut } of WORKLOADS) {
      const rivals = REAL_PEERS.filter((peer) => peers.includes(peer));
      const some = rivals.length > 0 && rivals.length < REAL_PEERS.length;
      expect([name, leftOut !== undefined]).toEqual([name, some]);
    }
  });

  it("a peer may have a smaller share of the jobs, or its own way", () => {
    const size = { jobs: 100, callers: 64 };
    const workload = { size, share: { slow: 0.1 }, instead: { bulky: { callers: 1 } } };
    expect(sizeOf(workload, "slow")).toEqual({ jobs: 10, callers: 64 });
    expect(sizeOf(workload, "bulky")).toEqual({ jobs: 100, callers: 1 });
  });
});

describe("the plan", () => {
  const workloads = [
    { name: "a", peers: ["ours", "pg-boss", "floor"] },
    { name: "b", peers: ["ours", "pg-boss"], rounds: 1 },
  ];
  const told = (peers: string[], rounds: number) =>
    plan(workloads, peers, rounds).map(
      ({ workload, peer, round }) => `${round} ${workload.name} ${peer}`,
    );

  it("goes round by round, and another peer begins in each", () => {
    expect(told(["ours", "pg-boss", "floor"], 2)).toEqual([
      "0 a ours",
      "0 a pg-boss",
      "0 a floor",
      "0 b ours",
      "0 b pg-boss",
      "1 a pg-boss",
      "1 a floor",
      "1 a ours",
    ]);
  });

  it("leaves out the peers that were not asked for", () => {
    expect(told(["floor"], 1)).toEqual(["0 a floor"]);
  });
});

describe("the command line", () => {
  const known = { workloads: ["drain", "bulk"], peers: ["ours", "floor"] };
  const parse = (...args: string[]) => parseOptions(args, known);

  it("only the full benchmark is published", () => {
    expect(parse()).toMatchObject({ runs: 5, complete: true });
    expect(parse("--check").complete).toBe(true);
    for (const args of [
      ["--quick"],
      ["--gate"],
      ["--only", "drain"],
      ["--peers", "ours"],
      ["--runs", "3"],
    ])
      expect(parse(...args).complete).toBe(false);
  });

  it("takes lists", () => {
    expect(parse("--only", "drain,bulk", "--peers", "floor")).toMatchObject({
      only: ["drain", "bulk"],
      peers: ["floor"],
    });
    expect(parse("--peers", "floor,floor").peers).toEqual(["floor"]);
    expect(parse("--quick").runs).toBe(1);
    expect(parse("--runs", "12").runs).toBe(12);
    expect(parse("--check", "--quick")).toMatchObject({ check: true, runs: 1 });
  });

  it.each([
    [["--only", "drains"], '--only: expected some of drain, bulk, found "drains"'],
    [["--peers", "redis"], '--peers: expected some of ours, floor, found "redis"'],
    [["--runs", "1e3"], '--runs: expected a whole number from 1 to 100, found "1e3"'],
    [["--runs", "0"], '--runs: expected a whole number from 1 to 100, found "0"'],
    [["--runs", "101"], '--runs: expected a whole number from 1 to 100, found "101"'],
    [["--runs", "4000000000"], '--runs: expected a whole number from 1 to 100, found "4000000000"'],
    [["--fast"], "--fast"],
    [["--check", "--runs", "4"], "--check: expected at least 5 runs, or --quick, found --runs 4"],
    [["--baseline"], "--baseline: expected together with --gate"],
    [
      ["--gate", "--baseline", "--runs", "4"],
      "--baseline: expected at least 5 runs, found --runs 4",
    ],
    [["--gate", "--quick"], "--gate: expected no --quick"],
    [["--gate", "--only", "drain"], "--gate: expected no --only"],
  ])("%j is refused", (args, message) => {
    expect(() => parse(...args)).toThrow(UsageError);
    expect(() => parse(...args)).toThrow(message);
  });
});

it("options that npm has kept for itself are refused before anything is run", () => {
  const bench = (env: NodeJS.ProcessEnv, ...args: string[]) =>
    spawnSync(process.execPath, [path.join(root, "tools/bench.mjs"), ...args], {
      encoding: "utf8",
      env: { ...process.env, ...env },
      timeout: 20_000,
    });
  const { status, stderr, stdout } = bench({ npm_config_quick: "true", npm_config_check: "true" });
  expect([status, stdout]).toEqual([2, ""]);
  expect(stderr).toContain("expected npm run bench -- --quick --check, with -- before");
  const one = bench({ npm_config_peers: "ours", npm_config_quick: "true" }, "--quick", "--list");
  expect([one.status, one.stderr]).toEqual([
    2,
    expect.stringContaining("expected npm run bench -- --peers,"),
  ]);
});

describe("what is run of it", () => {
  const of = (...args: string[]) =>
    parseOptions(args, { workloads: WORKLOADS.map(({ name }) => name), peers: ALL_PEERS });

  it("without a Redis it is the others, and a Redis is started for those who need it", () => {
    const here = choose(of("--only", "drain,drain-400k"), false);
    expect(here).toMatchObject({ without: ["bullmq-redis"], redis: false });
    expect(here.steps.map(({ peer }) => peer)).not.toContain("bullmq-redis");
    expect(choose(of("--only", "drain"), true)).toMatchObject({ without: [], redis: true });
    for (const args of [["--only", "drain-400k"], ["--peers", "ours"], ["--gate"]])
      expect(choose(of(...args), true)).toMatchObject({ without: [], redis: false });
  });

  it.each([
    [
      ["--peers", "bullmq-redis"],
      "nothing to run: bullmq-redis needs a Redis, and there is no redis-server in the PATH",
    ],
    [
      ["--only", "bulk-4", "--quick"],
      "nothing to run: there is nothing of the workloads bulk-4 with --quick (--list",
    ],
    [
      ["--only", "drain-1m", "--peers", "pg-boss"],
      "nothing to run: there is nothing of the workloads drain-1m with the peers pg-boss (--list",
    ],
    [["--check", "--only", "bulk-4", "--peers", "ours"], "--check: no row is about bulk-4"],
  ])("%j is refused", (args, message) => {
    expect(() => choose(of(...args), false)).toThrow(UsageError);
    expect(() => choose(of(...args), false)).toThrow(message);
  });
});

describe("exactly once", () => {
  const seen = (...numbers: number[]) => {
    const ledger = new Ledger({ jobs: 2 });
    for (const n of numbers) ledger.ran(n);
    return ledger.report(2);
  };
  const judged = async (
    reports: ReturnType<typeof seen>[],
    tally: Record<string, number | null> = {},
  ) =>
    await settledExactlyOnce(
      { producer: { call: async () => ({ unfinished: 0, succeeded: 2, failed: 0, ...tally }) } },
      reports,
      { jobs: 2 },
    );

  it("is each job by one of the workers, and nothing left", async () => {
    await judged([seen(0), seen(1)]);
    await expect(judged([seen(0)])).rejects.toThrow("job 1 ran 0 times instead of 1");
    await expect(judged([seen(0, 1), seen(1)])).rejects.toThrow("job 1 ran 2 times instead of 1");
    await expect(judged([seen(0, 1)], { unfinished: 1 })).rejects.toThrow("1 are unfinished");
  });

  it("is none that was to wait", async () => {
    await expect(judged([seen(0, 1, -1)])).rejects.toThrow("1 jobs ran that are not of this run");
    await expect(judged([seen(0, 1)], { unfinished: -1, succeeded: null })).rejects.toThrow(
      "1 that waited before it are gone",
    );
  });
});

describe("the gate", () => {
  const cpu = (
    round: number,
    workload: string,
    peer: string,
    clientMs: number,
    serverMs: number,
  ): Run => ({ workload, peer, round, figures: { clientMs, serverMs, rate: 1 } });
  const pairs = (
    workload: string,
    ours: [number, number],
    floor: [number, number],
    round = 0,
  ): [Run, Run] => [cpu(round, workload, "ours", ...ours), cpu(round, workload, "floor", ...floor)];
  const medians = new Medians([
    ...pairs("enqueue-16", [12, 9], [10, 10]),
    ...pairs("drain", [8, 15], [4, 10]),
    ...pairs("drain-enhanced", [24, 15], [4, 10]),
    ...pairs("retries", [60, 50], [30, 50]),
  ]);
  const before = {
    "enqueue-16": { clientMs: 1.2, serverMs: 0.9 },
    drain: { clientMs: 2, serverMs: 1.2 },
    "drain-enhanced": { clientMs: 6, serverMs: 1.5 },
    retries: { clientMs: 2.5, serverMs: 0.9 },
  };
  const statesOf = (judged: { state: string }[]) => judged.map(({ state }) => state);

  it("holds each run of ours against the floor's beside it", () => {
    expect(sharesOf(medians)).toMatchObject({
      drain: { clientMs: 2, serverMs: 1.5 },
      retries: { clientMs: 2, serverMs: 1 },
    });
    const crowded = new Medians([
      ...pairs("drain", [8, 15], [4, 10], 0),
      ...pairs("drain", [80, 150], [40, 100], 1),
      ...pairs("drain", [8, 15], [4.2, 10], 2),
      ...pairs("drain", [82, 150], [40, 100], 3),
      ...pairs("drain", [80, 150], [42, 100], 4),
    ]);
    expect(sharesOf(crowded)["drain"]).toEqual({ clientMs: 2, serverMs: 1.5 });
  });

  it("a run that went wrong leaves the others with the floor of their own round", () => {
    const [, floor] = pairs("drain", [0, 0], [40, 100], 0);
    const found = sharesOf(
      new Medians([
        { workload: "drain", peer: "ours", round: 0 },
        floor,
        ...pairs("drain", [8, 15], [4, 10], 1),
        ...pairs("drain", [80, 150], [40, 100], 2),
      ]),
    );
    expect(found["drain"]).toEqual({ clientMs: 2, serverMs: 1.5 });
  });

  it("lets nothing pass that has become dearer, nor what was not measured", () => {
    const judged = judgeShares(sharesOf(medians), before);
    const missed = judged.filter(({ state }) => state !== "reached");
    expect(missed.map(sayShare)).toEqual([
      "missed: drain, serverMs: 1.5 of the floor, 1.2 in the baseline (1.25 x, at most 1.15)",
    ]);
    const nothing = judgeShares(sharesOf(new Medians([])), before);
    expect(new Set(statesOf(nothing))).toEqual(new Set(["not measured"]));
    expect(sayShare(nothing[0]!)).toBe(
      "not measured: enqueue-16, clientMs: it takes runs of ours and of the floor",
    );
  });

  it("says what the baseline lacks", () => {
    const { drain, retries } = before;
    const judged = judgeShares(sharesOf(medians), { drain, retries });
    expect(statesOf(judged).filter((state) => state === "not measured")).toHaveLength(4);
    expect(sayShare(judged[0]!)).toBe(
      "not measured: enqueue-16, clientMs: bench/baseline.json lacks it, --baseline writes it",
    );
  });

  it("has workloads with both peers, small ones, and a baseline of some of them", () => {
    const workloads = workloadsFor({ quick: false, gate: true });
    expect(workloads.map(({ name }) => name)).toEqual(GATE.workloads);
    const amount = ({ jobs, seconds }: Size) => Number(jobs ?? seconds);
    for (const { peers, size, full } of workloads) {
      expect(peers).toEqual(["ours", "floor"]);
      expect(amount(size)).toBeLessThan(amount(full));
    }
    const baseline = readBaseline();
    expect(GATE.workloads).toEqual(expect.arrayContaining(Object.keys(baseline)));
    for (const shares of Object.values(baseline))
      for (const figure of GATE.figures) expect(shares[figure]).toBeGreaterThan(0);
  });
});

it("the page has the rows, medians with their spread, and what went wrong", () => {
  const peers = ["ours", "pg-boss", "graphile-worker"];
  const workloads = [
    {
      name: "drain",
      title: "drain it",
      note: "From first to last.",
      leftOut: "there is no time",
      rounds: 1,
      peers,
    },
  ];
  const runs = [
    ...runsOf("drain", "ours", 120_000, 130_000, 100_000),
    ...runsOf("drain", "pg-boss", 40_000),
  ];
  const medians = new Medians(runs);
  const row = { workload: "drain", figure: "rate", atLeast: 4 };
  const against = { called: "the fastest peer", peers: peers.slice(1) };
  const page = report({
    about: {
      machine: "m",
      node: "v24",
      postgres: "18",
      redis: true,
      runs: 3,
      minutes: "1",
      date: "d",
      complete: false,
      versions: ["pg-boss 12.38.0"],
      commit: "abc1234 with changes",
    },
    workloads,
    medians,
    judged: [
      judge({ ...row, against }, medians),
      judge({ workload: "latency", figure: "p99", atMost: 5 }, medians),
    ],
    problems: [{ workload: "drain", peer: "pg-boss", round: 1, problem: "one ran twice\n at x" }],
  });
  expect(page).toContain(
    "| drain it | jobs/s | 120.0k | the fastest peer of those measured, pg-boss: 40.0k | 3.00 × | ≥ 4 × | **incomplete** |",
  );
  expect(page).toContain("a part of it, for a first look");
  expect(page).toContain("pg-boss 12.38.0; 1 minutes");
  expect(page).toContain("commit abc1234 with changes");
  expect(page).toContain("Without the rows of latency (bench/rows.mjs).");
  expect(page).toContain(
    "From first to last. 1 run only. Without BullMQ on PostgreSQL and BullMQ on Redis: there is no time.",
  );
  expect(page).toContain("| nestjs-pg-jobs | 120.0k (100.0k–130.0k) | 1.00 × |");
  expect(page).toContain("| pg-boss | 40.0k | 0.33 × |");
  expect(page).toContain("- drain, pg-boss, run 2: one ran twice");
});
