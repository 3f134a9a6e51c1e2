import { setTimeout as sleep } from "node:timers/promises";
import { type Runner, Statement } from "../../pg/statement.js";

/** The chore that sees to queues with limits. */
export const LIMITS = "limits";

export interface SweepOptions {
  /** So many keys at once. */
  keys?: number;
  /** Keys that have running jobs too, of which one has to end else. */
  all?: boolean;
  /** And what nobody uses any more. */
  forget?: boolean;
  /** Before it goes on with more. */
  between?: () => Promise<unknown>;
}

const listGates = new Statement(
  "list_limit_gates",
  (jobs) => `select g.queue_id from ${jobs}.limit_gate g order by g.queue_id`,
);

const sweepQueue = new Statement(
  "sweep_limits",
  (jobs) => `
select s.opened, s.moved, s.last_limit, s.last_key
from ${jobs}.sweep_limits($1::integer, $2::smallint, $3::text, $4::integer, $5::boolean, $6::boolean) s`,
);

const KEYS = 500;
/** A call lets go and forgets no more than this, so that no claim waits for long; `sweep_limits` has the number too. */
const MOST = 2000;
/** So many calls let go of all that they may; the rest is left to the next time. */
const MOST_FULL = 25;

/** The queues that have limits, or had some until a moment ago. */
export async function gates(runner: Runner): Promise<number[]> {
  return (await runner.run(listGates)).map(([id]) => Number(id));
}

/** Sees to one queue; answers whether jobs can run that could not before. */
export async function sweep(
  runner: Runner,
  queueId: number,
  { keys = KEYS, all = true, forget = false, between = async () => undefined }: SweepOptions = {},
): Promise<boolean> {
  let after: readonly [number, string] = [0, ""];
  let found = false;
  for (let full = 0; full < MOST_FULL;) {
    const from = performance.now();
    const [row] = await runner.run(sweepQueue, [queueId, ...after, keys, all, forget]);
    const [opened, moved, limit, key] = row!;
    found ||= opened === "t" || Number(moved) > 0;
    if (Number(moved) >= MOST) {
      full++;
      await between();
      // Claims do not get the lock while somebody waits for it.
      await sleep(performance.now() - from);
      continue;
    }
    if (limit == null) return found;
    after = [Number(limit), key!];
  }
  return found;
}
