// The command line of `npm run bench`.
import { parseArgs } from "node:util";

export const USAGE = `npm run bench -- [options]
  --quick                 fewer jobs, fewer workloads, one run: under 3 minutes
  --check                 exit with 1 when a row is missed or incomplete, and say which; at least 5 runs, or --quick
  --gate                  CPU a job against bench/baseline.json: exit with 1 when it has grown; two minutes
  --gate --baseline       write what was found there; at least 5 runs
  --only <workload>[,…]   these workloads alone
  --peers <peer>[,…]      these peers alone
  --runs <number>         so many runs of each, instead of 5 (1 with --quick); at most 100
  --list                  what there is to run`;

/** Medians of fewer say little. */
export const PUBLISHED_RUNS = 5;
/** Of the full benchmark that is a day. */
const MOST_RUNS = 100;

export const ARGUMENTS = /** @type {const} */ ({
  quick: { type: "boolean", default: false },
  check: { type: "boolean", default: false },
  gate: { type: "boolean", default: false },
  baseline: { type: "boolean", default: false },
  list: { type: "boolean", default: false },
  only: { type: "string" },
  peers: { type: "string" },
  runs: { type: "string" },
});

export class UsageError extends Error {}

/** @throws UsageError */
export function parseOptions(args, { workloads, peers }) {
  let values;
  try {
    ({ values } = parseArgs({ args, options: ARGUMENTS }));
  } catch (error) {
    throw new UsageError(`${error.message}\n${USAGE}`);
  }
  if (values.baseline && !values.gate)
    throw new UsageError(`--baseline: expected together with --gate\n${USAGE}`);
  const part = ["quick", "check", "only", "peers"].find((name) => values[name]);
  if (values.gate && part)
    throw new UsageError(`--gate: expected no --${part}, it has workloads and peers of its own`);
  const runs = Number(values.runs ?? (values.quick ? 1 : PUBLISHED_RUNS));
  if (!/^[1-9]\d*$/.test(values.runs ?? "1") || runs > MOST_RUNS)
    throw new UsageError(
      `--runs: expected a whole number from 1 to ${MOST_RUNS}, found "${values.runs}"`,
    );
  if (values.check && !values.quick && runs < PUBLISHED_RUNS)
    throw new UsageError(
      `--check: expected at least ${PUBLISHED_RUNS} runs, or --quick, found --runs ${runs}`,
    );
  if (values.baseline && runs < PUBLISHED_RUNS)
    throw new UsageError(
      `--baseline: expected at least ${PUBLISHED_RUNS} runs, found --runs ${runs}`,
    );
  return {
    quick: values.quick,
    check: values.check,
    gate: values.gate,
    baseline: values.baseline,
    list: values.list,
    runs,
    only: among("--only", values.only, workloads),
    peers: among("--peers", values.peers, peers),
    /** Everything, as often as it takes to publish it. */
    complete:
      !values.quick &&
      !values.gate &&
      values.only === undefined &&
      values.peers === undefined &&
      runs >= PUBLISHED_RUNS,
  };
}

function among(option, text, known) {
  if (text === undefined) return undefined;
  const names = [...new Set(text.split(","))];
  for (const name of names)
    if (!known.includes(name))
      throw new UsageError(`${option}: expected some of ${known.join(", ")}, found "${name}"`);
  return names;
}
