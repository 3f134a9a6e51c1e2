// Which rows were reached.
import { FIGURES } from "./figures.mjs";
import { median } from "./numbers.mjs";

/** The medians of a benchmark's runs: by workload, peer and figure. */
export class Medians {
  #values = new Map();
  #runs = new Map();

  constructor(runs) {
    for (const { workload, peer, round, figures = {} } of runs) {
      const who = keyOf(workload, peer);
      this.#runs.set(who, this.runs(workload, peer) + 1);
      for (const [figure, value] of Object.entries(figures)) {
        const key = keyOf(who, figure);
        this.#values.set(key, [...(this.#values.get(key) ?? []), [round, value]]);
      }
    }
  }

  /** How many there were, those that went wrong too. */
  runs(workload, peer) {
    return this.#runs.get(keyOf(workload, peer)) ?? 0;
  }

  all(workload, peer, figure) {
    return this.#of(workload, peer, figure).map(([, value]) => value);
  }

  /** Without the rounds that went wrong. */
  byRound(workload, peer, figure) {
    return new Map(this.#of(workload, peer, figure));
  }

  of(workload, peer, figure) {
    return median(this.all(workload, peer, figure));
  }

  #of(...who) {
    return this.#values.get(keyOf(...who)) ?? [];
  }
}

const keyOf = (...parts) => parts.join(" ");

/**
 * One row after the runs of `workloads`, on a machine that cannot have the peers in `without`. `state` is 'reached' or
 * 'missed'; 'incomplete' when one of those that it holds side by side has not run, or not succeeded each time; 'not
 * measured' without ours, or without anybody to hold it against; 'no Redis' when those need one. `lacks` says why.
 */
export function judge(row, medians, { workloads, without = [] }) {
  const { workload, figure, against, atLeast, atMost } = row;
  const rivals = against ? rivalsIn(row, workloads) : [];
  const there = rivals.filter(({ peer }) => !without.includes(peer));
  if (rivals.length > 0 && there.length === 0) return { ...row, state: "no Redis", lacks: [] };
  const lacks = [{ workload, peer: "ours" }, ...there].flatMap((one) => lackOf(one, row, medians));
  const value = medians.of(workload, "ours", figure);
  const base = against ? bestOf(there, row, medians) : { value: 1 };
  if (value === undefined || base === undefined) return { ...row, state: "not measured", lacks };
  const found = value / base.value;
  const reached = atLeast === undefined ? found <= atMost : found >= atLeast;
  const state = lacks.length > 0 ? "incomplete" : reached ? "reached" : "missed";
  return { ...row, state, lacks, value, base, found };
}

/** Those of the rows about these workloads that --check does not let pass. */
export function failures(judged, workloads) {
  const asked = new Set(workloads.map(({ name }) => name));
  return judged.filter(
    ({ workload, state }) => asked.has(workload) && !["reached", "no Redis"].includes(state),
  );
}

/** Whose figures ours is held against: those peers who take part in its workload, or ours in another one. */
function rivalsIn({ workload, against }, workloads) {
  if (!against.peers) return [{ workload: against.workload, peer: "ours" }];
  const { peers = [] } = workloads.find(({ name }) => name === workload) ?? {};
  return against.peers
    .filter((peer) => peers.includes(peer))
    .map((peer) => ({ workload, peer, by: peer }));
}

function lackOf({ workload, peer }, { figure }, medians) {
  const runs = medians.runs(workload, peer);
  if (runs === 0) return [`${workload} has not run with ${peer}: add them to --only and --peers`];
  const succeeded = medians.all(workload, peer, figure).length;
  return succeeded === runs
    ? []
    : [`${runs - succeeded} of ${runs} runs of ${workload} with ${peer} went wrong`];
}

/** The best figure of the rivals. */
function bestOf(rivals, { figure }, medians) {
  const sign = FIGURES[figure].better === "more" ? -1 : 1;
  const measured = rivals
    .map(({ workload, peer, by }) => ({ by, value: medians.of(workload, peer, figure) }))
    .filter(({ value }) => value !== undefined);
  const [best] = measured.sort((a, b) => sign * (a.value - b.value));
  return best && { ...best, among: measured.map(({ by }) => by) };
}
