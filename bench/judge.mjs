// Which rows were reached.
import { FIGURES } from "./figures.mjs";
import { median } from "./numbers.mjs";

/** The medians of a benchmark's runs: by workload, peer and figure. */
export class Medians {
  #values = new Map();

  constructor(runs) {
    for (const { workload, peer, figures } of runs) {
      if (!figures) continue;
      for (const [figure, value] of Object.entries(figures)) {
        const key = keyOf(workload, peer, figure);
        this.#values.set(key, [...(this.#values.get(key) ?? []), value]);
      }
    }
  }

  all(workload, peer, figure) {
    return this.#values.get(keyOf(workload, peer, figure)) ?? [];
  }

  of(workload, peer, figure) {
    return median(this.all(workload, peer, figure));
  }
}

const keyOf = (...parts) => parts.join(" ");

/** One row after the runs: `state` is 'reached', 'missed' or 'not measured'. */
export function judge(row, medians) {
  const { workload, figure, against, atLeast, atMost } = row;
  const value = medians.of(workload, "ours", figure);
  const base = against ? baseOf(row, medians) : { value: 1 };
  if (value === undefined || base === undefined) return { ...row, state: "not measured" };
  const found = value / base.value;
  const reached = atLeast === undefined ? found <= atMost : found >= atLeast;
  return { ...row, state: reached ? "reached" : "missed", value, base, found };
}

/** The best figure of those that ours is held against. */
function baseOf({ workload, figure, against }, medians) {
  const candidates = against.peers
    ? against.peers.map((peer) => ({ by: peer, value: medians.of(workload, peer, figure) }))
    : [{ by: against.workload, value: medians.of(against.workload, "ours", figure) }];
  const sign = FIGURES[figure].better === "more" ? -1 : 1;
  const measured = candidates.filter(({ value }) => value !== undefined);
  const [best] = measured.sort((a, b) => sign * (a.value - b.value));
  return best && { ...best, among: measured.map(({ by }) => by) };
}
