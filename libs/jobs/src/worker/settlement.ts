import type { Decision } from "../job/verdict.js";
import type { Attempt } from "./attempt.js";

// What became of an attempt, and how such go together into statements.

/** What is to be written: the decision of the verdict, or one of the worker itself. */
export type Settlement =
  | Exclude<Decision, { verb: "hand-back" | "bury" }>
  | {
      verb: "bury";
      error: unknown;
      reason: "exhausted" | "buried" | "bury-on" | "not-retryable" | "crashed";
    }
  | { verb: "hand-back"; started: boolean; quarantine: boolean; misplaced?: boolean };

export type Verb = Settlement["verb"];

/** One that is to be written; why it is a class, see `ClaimedRow`. */
export class Pending {
  /** A statement with it was under way when the connection broke: it may be settled already. */
  uncertain = false;
  /** The fence that was sent; a newer one means that the attempt was adopted meanwhile. */
  sent = 0;
  /** It waited for somebody's lock: it is sent when its row is free, and holds nobody up meanwhile. */
  locked = false;

  constructor(
    readonly attempt: Attempt,
    readonly settlement: Settlement,
    /** JSON text, made once. */
    public text: string | null,
  ) {}
}

/** What these would put back in its queue ends here when its cancel was requested. */
export const BACK: ReadonlySet<Verb> = new Set<Verb>(["retry", "snooze", "hand-back"]);

const MAX_BATCH: Record<Verb, number> = {
  succeed: 1_000,
  skip: 500,
  snooze: 500,
  retry: 500,
  bury: 500,
  "hand-back": 1_000,
  cancel: 500,
};
/** Of results and errors in one statement: a longer text than Node or PostgreSQL can hold would fail for ever. */
const MAX_CHARACTERS = 4_000_000;

export const fenceOf = ({ attempt: { claim } }: Pending) => ({
  id: claim.id,
  attempt: claim.attempt,
});

export function as<V extends Verb>(
  { settlement }: Pending,
  _verb: V,
): Extract<Settlement, { verb: V }> {
  return settlement as Extract<Settlement, { verb: V }>;
}

/** One statement writes one verb for one queue and worker id. */
export function groups(pending: readonly Pending[]): Pending[][] {
  const all: Pending[][] = [];
  for (const one of pending) {
    // Mostly there is one.
    const group = all.find(([first]) => goTogether(first!, one));
    if (group) group.push(one);
    else all.push([one]);
  }
  return all.flatMap(inBatches);
}

const goTogether = (a: Pending, b: Pending): boolean =>
  a.settlement.verb === b.settlement.verb &&
  a.attempt.claim.queueId === b.attempt.claim.queueId &&
  a.attempt.claim.worker === b.attempt.claim.worker &&
  a.locked === b.locked;

function inBatches(group: Pending[]): Pending[][] {
  const size = MAX_BATCH[group[0]!.settlement.verb];
  const batches: Pending[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  for (const one of group) {
    characters += one.text?.length ?? 0;
    if (characters > MAX_CHARACTERS || batches.at(-1)!.length === size) {
      batches.push([]);
      characters = one.text?.length ?? 0;
    }
    batches.at(-1)!.push(one);
  }
  return batches;
}
