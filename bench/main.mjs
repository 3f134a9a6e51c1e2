// `npm run bench`, once its dependencies and a Node.js to run on are there.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { choose } from "./choice.mjs";
import { commit } from "./commit.mjs";
import { judgeShares, readBaseline, sayShare, sharesOf, writeBaseline } from "./gate.mjs";
import { Medians, failures, judge } from "./judge.mjs";
import { Machine } from "./machine/machine.mjs";
import { findRedis } from "./machine/redis.mjs";
import { parseOptions, UsageError } from "./options.mjs";
import { ALL_PEERS } from "./peers/index.mjs";
import { report, rowsTable } from "./report.mjs";
import { Results } from "./results.mjs";
import { ROWS } from "./rows.mjs";
import { run } from "./run.mjs";
import { WORKLOADS, workloadsFor } from "./workloads/index.mjs";

const MANIFEST = path.resolve(import.meta.dirname, "package.json");
const PAGE = path.resolve(import.meta.dirname, "../docs/benchmark.md");

function chosen() {
  try {
    return parseOptions(process.argv.slice(2), {
      workloads: WORKLOADS.map(({ name }) => name),
      peers: ALL_PEERS,
    });
  } catch (error) {
    return refused(error);
  }
}

function refused(error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exit(2);
}

function list() {
  for (const { name, title, peers } of WORKLOADS)
    console.log(`${name.padEnd(22)} ${title} (${peers.join(", ")})`);
}

async function bench(options, { workloads, without, steps, redis }) {
  const machine = await Machine.start({ redis });
  const stop = () => void machine.stop().finally(() => process.exit(1));
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);
  const from = performance.now();
  try {
    const { runs, quick, complete } = options;
    const described = { ...(await machine.describe()), commit: commit(), runs, quick };
    const results = new Results(described);
    for (const [index, step] of steps.entries()) {
      const result = await run(machine, step);
      results.add(result);
      console.log(`${index + 1}/${steps.length} ${lineOf(result)}`);
    }
    const minutes = ((performance.now() - from) / 60_000).toFixed(1);
    const date = new Date().toISOString().slice(0, 10);
    const about = { ...described, minutes, date, complete, versions: versions() };
    return { about, workloads, without, results };
  } finally {
    for (const signal of ["SIGINT", "SIGTERM"]) process.off(signal, stop);
    await machine.stop();
  }
}

/** Of the peers, as they are installed. */
function versions() {
  const { dependencies } = JSON.parse(readFileSync(MANIFEST, "utf8"));
  return Object.entries(dependencies).map(([name, version]) => `${name} ${version}`);
}

function lineOf({ workload, peer, figures, problem, seconds }) {
  const what = figures
    ? Object.entries(figures)
        .map(([figure, value]) => `${figure} ${Number(value.toPrecision(4))}`)
        .join(", ")
    : `FAILED: ${problem}`;
  return `${workload}, ${peer}: ${what} (${seconds} s)`;
}

/** Writes the page; answers the rows that were not reached. */
function tell(options, { about, workloads, without, results }) {
  const medians = new Medians(results.runs);
  const on = { workloads: workloadsFor(options), without };
  const judged = ROWS.map((row) => judge(row, medians, on));
  const page = report({ about, workloads, medians, judged, problems: results.problems });
  const file = options.complete ? PAGE : results.file.replace(/jsonl$/, "md");
  writeFileSync(file, page);
  console.log(`\n${rowsTable(judged, workloads).join("\n")}\n\n${results.file}\n${file}`);
  return failures(judged, workloads);
}

/** Answers whether nothing has become dearer. */
function passes({ baseline }, { results }) {
  const shares = sharesOf(new Medians(results.runs));
  if (baseline && results.problems.length > 0) throw new Error("no baseline: runs went wrong");
  if (baseline) writeBaseline(shares);
  const judged = judgeShares(shares, readBaseline());
  console.log(`\n${judged.map(sayShare).join("\n")}`);
  return judged.every(({ state }) => state === "reached");
}

/** What is to be run, or a word why there is nothing. */
function choice(options) {
  try {
    return choose(options, findRedis() !== undefined);
  } catch (error) {
    return refused(error);
  }
}

const options = chosen();
if (options.list) list();
else {
  const outcome = await bench(options, choice(options));
  if (options.gate && !passes(options, outcome)) process.exitCode = 1;
  const failed = options.gate ? [] : tell(options, outcome);
  if (outcome.results.problems.length > 0) {
    console.error(`${outcome.results.problems.length} runs went wrong`);
    process.exitCode = 1;
  }
  if (options.check && failed.length > 0) {
    const titles = new Map(WORKLOADS.map(({ name, title }) => [name, title]));
    for (const { workload, figure, against, state, lacks } of failed)
      console.error(
        [
          `${state}: ${titles.get(workload)}, ${figure}${against ? ` against ${against.called}` : ""}`,
          ...lacks,
        ].join("; "),
      );
    process.exitCode = 1;
  }
}
