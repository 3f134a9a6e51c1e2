import { type Runner, Statement } from "../../pg/statement.js";

// The counters' deltas have no index: whoever looks for one walks the table. As long as somebody's transaction pins the
// horizon, those that were rolled up stay there, dead, millions an hour, and new ones come behind them. So nobody walks
// all of it each time: the tail is looked at, and the whole of a table that is longer is walked now and then, for what
// was committed late, or went into pages that a vacuum has emptied.

/** So many pages, some 160,000 deltas, at the end of the table: what was written last is there. */
const TAIL = 1_024;
/** A statement walks no more pages than this: whoever enqueues in this process waits for it. */
const SPAN = 4_096;
/** So long a table may be walked by its tail alone; longer, when to walk it takes more than a part of that time. */
const WHOLE_MS = 60_000;
const DEAR_SHARE = 20;

/** SQL: how many pages the table has, dead rows and all. */
const length = (jobs: string) =>
  `pg_relation_size('${jobs}.stat_delta'::regclass) / current_setting('block_size')::bigint`;

/**
 * SQL: whether the roll-up is worth its turn, for a row of chores as `c`. The end of the table is asked for by a
 * sub-select: only so is it a place for a scan to begin at.
 */
export const worthRollUp = (jobs: string): string => `(
  exists (
    select from ${jobs}.stat_delta d
    where d.ctid >= (select ('(' || greatest(${length(jobs)} - ${TAIL}, 0) || ',0)')::tid)
  )
  or (c.due_at < now() - interval '${WHOLE_MS} ms' and ${length(jobs)} > ${TAIL})
)`;

// By row address: deltas are never changed. Two of these may run at once: a scan by address goes in its order, and the
// sums are sorted, so that neither waits for one that waits for it.
const rollUpStats = new Statement(
  "roll_up",
  (jobs) => `
with taken as materialized (
  select d.ctid as at from ${jobs}.stat_delta d where d.ctid >= $2::tid and d.ctid < $3::tid limit $1::integer
), deltas as (
  delete from ${jobs}.stat_delta d where d.ctid = any(array(select at from taken))
  returning d.queue_id, d.lane, d.state, d.day, d.n
), sums as (
  select queue_id, lane, state, day, sum(n) as n from deltas group by 1, 2, 3, 4
), summed as (
  insert into ${jobs}.stat as s (queue_id, lane, state, day, n)
  select queue_id, lane, state, day, n from sums where n <> 0 order by 1, 2, 3, 4
  on conflict (queue_id, lane, state, day) do update set n = s.n + excluded.n
)
select count(*), max(at), ${length(jobs)} from taken`,
);

/** So many deltas, or fewer, in one statement: somebody may have enqueued ten million jobs one by one. */
const BATCH = 20_000;
/** The rest comes with the next turn. */
const MAX_BATCHES = 500;

/** Where a process that rolls up from time to time need not look each time. A hint: what lies before is found later. */
export class Deltas {
  /** The page to begin at. */
  #from = 0;
  #wholeAgainAt = Number.NEGATIVE_INFINITY;

  /** Folds the deltas into their sums: those that were written since the last time, and now and then any other. */
  async rollUp(runner: Runner, batch = BATCH): Promise<void> {
    const began = performance.now();
    const whole = began >= this.#wholeAgainAt;
    const pages = await walk(runner, batch, whole ? 0 : this.#from);
    // There is more, and nobody knows where; or the table has been emptied.
    if (pages === undefined || pages < this.#from) return this.forget();
    this.#from = pages <= SPAN ? 0 : pages - TAIL;
    if (!whole) return;
    const now = performance.now();
    this.#wholeAgainAt = now + Math.max(WHOLE_MS, (now - began) * DEAR_SHARE);
  }

  forget(): void {
    this.#from = 0;
    this.#wholeAgainAt = Number.NEGATIVE_INFINITY;
  }
}

/** Folds all deltas into their sums, wherever they lie. */
export async function rollUp(runner: Runner, batch = BATCH): Promise<void> {
  await walk(runner, batch, 0);
}

/** From a page to the end; answers how many pages there are, and nothing when deltas are left. */
async function walk(runner: Runner, batch: number, page: number): Promise<number | undefined> {
  let at = `(${page},0)`;
  let full = 0;
  for (;;) {
    const end = pageOf(at) + SPAN;
    const [row] = await runner.run(rollUpStats, [batch, at, `(${end},0)`]);
    const [taken, last, pages] = row!;
    if (Number(taken) === batch) {
      if (++full === MAX_BATCHES) return undefined;
      at = last!;
    } else if (end >= Number(pages)) return Number(pages);
    else at = `(${end},0)`;
  }
}

const pageOf = (at: string): number => Number(at.slice(1, at.indexOf(",")));
