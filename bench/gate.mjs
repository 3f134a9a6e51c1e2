// The regression gate: what a job costs in CPU, not in time, which others on the machine would change. The same work
// costs more on one machine than on another; so ours is held against the floor of the same run, and that share of it
// against the share that is committed.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

const FILE = path.resolve(import.meta.dirname, "baseline.json");

export const GATE = {
  workloads: ["drain", "retries"],
  peers: ["ours", "floor"],
  figures: ["clientMs", "serverMs"],
};
/** Runs of the same code lie within it. */
const TOLERANCE = 1.15;

/** Ours in parts of the floor, by workload and figure. */
export function sharesOf(medians) {
  return Object.fromEntries(
    GATE.workloads.map((workload) => [
      workload,
      Object.fromEntries(
        GATE.figures.map((figure) => {
          const share =
            medians.of(workload, "ours", figure) / medians.of(workload, "floor", figure);
          return [figure, Math.round(share * 1_000) / 1_000];
        }),
      ),
    ]),
  );
}

/** One line a figure: `state` is 'reached', 'missed', or 'not measured' where a share is not known. */
export function judgeShares(found, baseline) {
  return GATE.workloads.flatMap((workload) =>
    GATE.figures.map((figure) => {
      const now = found[workload][figure];
      const before = baseline[workload]?.[figure];
      const ratio = now / before;
      const state = Number.isFinite(ratio)
        ? ratio <= TOLERANCE
          ? "reached"
          : "missed"
        : "not measured";
      return { workload, figure, now, before, ratio, state };
    }),
  );
}

export const readBaseline = () => JSON.parse(readFileSync(FILE, "utf8"));

export const writeBaseline = (shares) =>
  writeFileSync(FILE, `${JSON.stringify(shares, undefined, 2)}\n`);

/** A line for people. */
export const sayShare = ({ workload, figure, now, before, ratio, state }) =>
  `${state}: ${workload}, ${figure}: ${now} of the floor, ${before} in the baseline (${ratio.toFixed(2)} x, at most ${TOLERANCE})`;
