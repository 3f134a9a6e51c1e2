import type { BulkAction } from "../../job/bulk-order.js";
import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { iso } from "../reads/columns.js";

// Orders to do something to many jobs. The process that has the lease of one works it off, page by page; each page and how
// far it has come are one transaction.

/** The schema version that has them. */
export const BULK_SINCE = 8;

const LEASE = "30 seconds";

export type BulkState = "running" | "done" | "stopped" | "failed";

/** A bulk operation as it stands. */
export interface BulkView {
  id: string;
  action: BulkAction;
  /** As it was given; times as ISO strings. */
  filter: object;
  /** No more than so many jobs are changed. */
  expected: number;
  operator: string;
  why: string | null;
  createdAt: string;
  state: BulkState;
  /** How many it has changed so far. */
  changed: number;
  /** How many it came upon and could not, by the answer that each gave. */
  refused: Record<string, number>;
  /** Why it has failed. */
  problem: string | null;
  finishedAt: string | null;
}

const COLUMNS = `b.id, b.action, b.filter, b.expected, b.operator, b.why, ${iso("b.created_at")}, b.state, b.changed, b.refused, b.problem,
  ${iso("b.finished_at")}`;

const insert = new Statement(
  "insert_bulk",
  (jobs) => `
insert into ${jobs}.bulk as b (action, filter, expected, operator, why)
select $1::text, $2::text::jsonb, $3::bigint, $4::text, $5::text
returning ${COLUMNS}`,
);

const findOne = new Statement(
  "find_bulk",
  (jobs) => `select ${COLUMNS} from ${jobs}.bulk b where b.id = $1::bigint`,
);

const listNewest = new Statement(
  "list_bulk",
  (jobs) => `
select ${COLUMNS} from ${jobs}.bulk b where b.id < $1::bigint order by b.id desc limit $2::integer`,
);

// Nobody is at it: it was just ordered, or its process is gone.
const findAbandoned = new Statement(
  "abandoned_bulk",
  (jobs) => `
select b.id from ${jobs}.bulk b
where b.state = 'running' and (b.lease_until is null or b.lease_until < now())
order by b.id limit 10`,
);

const take = new Statement(
  "take_bulk",
  (jobs) => `
-- running -> running, by this process
update ${jobs}.bulk b set runner = $2::text, lease_until = now() + interval '${LEASE}'
where b.id = $1::bigint and b.state = 'running' and (b.runner = $2::text or b.lease_until is null or b.lease_until < now())
returning ${COLUMNS}, b.below`,
);

const save = new Statement(
  "save_bulk",
  (jobs) => `
-- running -> running | done
update ${jobs}.bulk b
set below = $3::bigint, changed = b.changed + $4::bigint, refused = $5::text::jsonb, lease_until = now() + interval '${LEASE}',
  state = case when $6::boolean then 'done' else 'running' end, finished_at = case when $6::boolean then now() end
where b.id = $1::bigint and b.runner = $2::text and b.state = 'running'
returning b.id`,
);

const fail = new Statement(
  "fail_bulk",
  (jobs) => `
-- running -> failed
update ${jobs}.bulk b set state = 'failed', problem = $3::text, finished_at = now(), lease_until = null
where b.id = $1::bigint and b.runner = $2::text and b.state = 'running'`,
);

const stop = new Statement(
  "stop_bulk",
  (jobs) => `
-- running -> stopped
update ${jobs}.bulk b set state = 'stopped', finished_at = now(), lease_until = null
where b.id = $1::bigint and b.state = 'running'`,
);

const release = new Statement(
  "release_bulk",
  (jobs) => `
update ${jobs}.bulk b set lease_until = null
where b.id = any($1::bigint[]) and b.runner = $2::text and b.state = 'running'`,
);

function view(row: Row): BulkView {
  return {
    id: row[0]!,
    action: row[1] as BulkAction,
    filter: JSON.parse(row[2]!) as object,
    expected: Number(row[3]),
    operator: row[4]!,
    why: row[5] ?? null,
    createdAt: row[6]!,
    state: row[7] as BulkState,
    changed: Number(row[8]),
    refused: JSON.parse(row[9]!) as Record<string, number>,
    problem: row[10] ?? null,
    finishedAt: row[11] ?? null,
  };
}

/** What an operator orders. */
export interface BulkOrder {
  action: BulkAction;
  filter: object;
  expected: number;
  operator: string;
  why: string | null;
}

export async function order(runner: Runner, one: BulkOrder): Promise<BulkView> {
  const { action, filter, expected, operator, why } = one;
  const values = [action, JSON.stringify(filter), expected, operator, why];
  const [row] = await runner.run(insert, values);
  return view(row!);
}

export async function find(runner: Runner, id: string): Promise<BulkView | null> {
  const [row] = await runner.run(findOne, [id]);
  return row ? view(row) : null;
}

/** The newest first, those before an id. */
export async function newest(
  runner: Runner,
  before: string | null,
  limit: number,
): Promise<BulkView[]> {
  return (await runner.run(listNewest, [before ?? "9223372036854775807", limit])).map(view);
}

/** Those that nobody is at. */
export async function abandoned(runner: Runner): Promise<string[]> {
  return (await runner.run(findAbandoned)).map(([id]) => id!);
}

/** It is this process's for a while; null: it is over, or somebody else's. `below`: where to go on. */
export async function takeUp(
  runner: Runner,
  id: string,
  by: string,
): Promise<(BulkView & { below: string | null }) | null> {
  const [row] = await runner.run(take, [id, by]);
  return row ? { ...view(row), below: row[12] ?? null } : null;
}

/** How far it has come. */
export interface BulkProgress {
  below: string | null;
  changed: number;
  refused: Record<string, number>;
  done: boolean;
}

/** Answers false when it is not this process's any more: nothing was written. */
export async function saveProgress(
  runner: Runner,
  id: string,
  by: string,
  { below, changed, refused, done }: BulkProgress,
): Promise<boolean> {
  const values = [id, by, below, changed, JSON.stringify(refused), done];
  return (await runner.run(save, values)).length > 0;
}

export async function giveUp(
  runner: Runner,
  id: string,
  by: string,
  problem: string,
): Promise<void> {
  await runner.run(fail, [id, by, problem]);
}

export async function end(runner: Runner, id: string): Promise<void> {
  await runner.run(stop, [id]);
}

/** Others may have them at once. */
export async function letGo(runner: Runner, ids: readonly string[], by: string): Promise<void> {
  await runner.run(release, [`{${ids.join(",")}}`, by]);
}

const setMark = new Statement(null, () => "savepoint one_job");
const goBack = new Statement(null, () => "rollback to savepoint one_job");

/** From here on what is done may be undone alone. */
export async function mark(runner: Runner): Promise<void> {
  await runner.run(setMark);
}

export async function backToMark(runner: Runner): Promise<void> {
  await runner.run(goBack);
}
