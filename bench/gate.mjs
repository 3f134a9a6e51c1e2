// The regression gate: what a job costs in CPU, not in time, which others on the machine would change. The same work
// costs more on one machine than on another; so ours is held against the floor of the same run, and that share of it
// against the share that is committed.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { median } from "./numbers.mjs";

const FILE = path.resolve(import.meta.dirname, "baseline.json");

export const GATE = {
  workloads: ["enqueue-16", "drain", "drain-enhanced", "retries"],
  peers: ["ours", "floor"],
  figures: ["clientMs", "serverMs"],
};
/** Runs of the same code lie within it. */
const TOLERANCE = 1.15;

/**
 * Ours in parts of the floor, by workload and figure: the median of what each run of ours is of the floor's run beside
 * it. Where others use the machine, a job of `enqueue-16` costs three times as much, for both; medians of each alone
 * came from different moments, and their share from 1.3 to 1.7.
 */
export function sharesOf(medians) {
  return Object.fromEntries(
    GATE.workloads.map((workload) => [
      workload,
      Object.fromEntries(
        GATE.figures.map((figure) => {
          const floor = medians.byRound(workload, "floor", figure);
          const shares = [...medians.byRound(workload, "ours", figure)]
            .filter(([round]) => floor.has(round))
            .map(([round, own]) => own / floor.get(round));
          return [figure, Math.round(median(shares) * 1_000) / 1_000];
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
export function sayShare({ workload, figure, now, before, ratio, state }) {
  const about = `${state}: ${workload}, ${figure}`;
  if (before === undefined) return `${about}: bench/baseline.json lacks it, --baseline writes it`;
  if (!Number.isFinite(ratio)) return `${about}: it takes runs of ours and of the floor`;
  return `${about}: ${now} of the floor, ${before} in the baseline (${ratio.toFixed(2)} x, at most ${TOLERANCE})`;
}
