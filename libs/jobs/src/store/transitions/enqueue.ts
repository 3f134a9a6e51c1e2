import type { OnConflict } from "../../job/enqueue-options.js";
import { type Row, type Runner, Statement } from "../../pg/statement.js";
import {
  type NamedLane,
  STANDS,
  StaleLanesError,
  standing,
  standingValues,
} from "../queues/standing.js";

/** What a key asks for beyond being unique while its job is unfinished. */
export interface Unique {
  /** For how long it is unique at least, from now; null: no longer than its job is unfinished. */
  windowMs: number | null;
  /** What to do with a queued job that holds the key. */
  onConflict: OnConflict;
}

/** The job that has the key after the call, or that was made without one. */
export interface Holder {
  readonly id: string;
  /** Of a call that wanted to replace and met a job: whether it did. */
  readonly replaced?: boolean;
}

/** A job as it goes into the table; null is what neither call nor definition said. */
export interface NewJob extends NamedLane {
  /** Known before the insert, so that a lost commit can be looked up and repeated. */
  id: string;
  delayMs: number;
  at: Date | null;
  attempts: number | null;
  timeoutMs: number | null;
  key: string | null;
  /** Absent or null is a plain key, or none. */
  unique?: Unique | null;
  /** JSON text. */
  payload: string;
}

// By the clock of the statement, not of the transaction: a delay counts from the call, and a job of a transaction that
// has been open for long lies as near to the claims' cursors as it can when it is committed.
const columns = (jobs: string) => `
with ${standing(jobs, "$1::integer", 3)}, new as materialized (
  select * from jsonb_to_recordset($2::text::jsonb) as new (
    id bigint, lane smallint, kind text, delay float8, at timestamptz, attempts smallint, timeout bigint, key text, payload jsonb)
), inserted as (
  insert into ${jobs}.job (id, queue_id, lane, kind, run_at, attempts, timeout_ms, key, payload)
  select id, $1::integer, lane, kind,
    coalesce(at, to_timestamp(extract(epoch from statement_timestamp())::float8 + delay / 1000)), attempts, timeout, key,
    coalesce(payload, 'null') -- a record set reads JSON's null as SQL's
  from new where ${STANDS}`;

/** Jobs without a key, sent for the first time: nothing can be in their way. */
const insert = new Statement(
  "enqueue",
  (jobs) => `
-- -> queued
${columns(jobs)}
)
select 'stale' where not ${STANDS}`,
);

/** Jobs with a key, or sent again: what is there already stays as it is. */
const insertUnlessThere = new Statement(
  "enqueue_unless_there",
  (jobs) => `
-- -> queued
${columns(jobs)}
  on conflict do nothing
  returning id
)
select id::text from inserted
union all select null where not ${STANDS}`,
);

const findByKey = new Statement(
  "find_by_key",
  (jobs) => `
select id::text, key from ${jobs}.job where queue_id = $1::integer and kind = $2::text and key = any($3::text[])`,
);

const findById = new Statement(
  "find_by_id",
  (jobs) => `
select id::text from ${jobs}.job where id = any($2::bigint[]) and queue_id = $1::integer
union all select id::text from ${jobs}.done where id = any($2::bigint[]) and queue_id = $1::integer
union all select id::text from ${jobs}.dead where id = any($2::bigint[]) and queue_id = $1::integer`,
);

/** The batch as the record sets of our statements read it. */
export function asRecords(batch: readonly NewJob[]): string {
  // By hand: the payload is JSON text already and would be parsed and written again.
  let text = "";
  for (const job of batch) {
    text += `${text === "" ? "[" : ","}{"id":${job.id},"lane":${job.lane},"kind":${JSON.stringify(job.kind)},"payload":${job.payload}`;
    text += job.at === null ? `,"delay":${job.delayMs}` : `,"at":"${job.at.toISOString()}"`;
    if (job.attempts !== null) text += `,"attempts":${job.attempts}`;
    if (job.timeoutMs !== null) text += `,"timeout":${job.timeoutMs}`;
    if (job.key !== null) text += `,"key":${JSON.stringify(job.key)}`;
    if (job.unique) {
      text += `,"conflict":"${job.unique.onConflict}"`;
      if (job.unique.windowMs !== null) text += `,"window_ms":${job.unique.windowMs}`;
    }
    text += "}";
  }
  return `${text}]`;
}

const valuesOf = (queueId: number, batch: readonly NewJob[]) => [
  queueId,
  asRecords(batch),
  ...standingValues(batch),
];

/** The ids that a statement has answered. @throws StaleLanesError */
function inserted(rows: readonly Row[]): Set<string> {
  if (rows.length === 1 && rows[0]![0] === null) throw new StaleLanesError();
  return new Set(rows.map(([id]) => id!));
}

/** Inserts jobs of one queue that have no key. All or none. @throws StaleLanesError */
export async function enqueue(
  runner: Runner,
  queueId: number,
  batch: readonly NewJob[],
): Promise<void> {
  const stale = await runner.run(insert, valuesOf(queueId, batch));
  if (stale.length > 0) throw new StaleLanesError();
}

/** A fresh id is in use: the sequence of ids has gone back, by a restore or a failover that lost its end. */
export class IdTakenError extends Error {
  override readonly name = "IdTakenError";
  constructor(id: string) {
    super(`the fresh job id ${id} is in use: the sequence "job_id" has gone back`);
  }
}

/** So often a key is found free and taken again before it is told that this cannot be. */
export const MAX_ROUNDS = 50;

/**
 * Inserts jobs of one queue, some or all with keys; answers for each, in order, who holds its key.
 * The batch goes in the order of its keys, so that two of them cannot wait for one another.
 * @throws StaleLanesError
 */
export async function enqueueKeyed(
  runner: Runner,
  queueId: number,
  batch: readonly NewJob[],
): Promise<Holder[]> {
  const found: Holder[] = Array.from({ length: batch.length });
  let rounds = 0;
  let open = batch.map((job, index) => ({ job, index }));
  while (open.length > 0) {
    open.sort((a, b) => byKey(a.job, b.job) || a.index - b.index);
    const values = valuesOf(
      queueId,
      open.map((one) => one.job),
    );
    const created = inserted(await runner.run(insertUnlessThere, values));
    const refused = open.filter(({ job, index }) => {
      if (!created.has(job.id)) return true;
      found[index] = job;
      return false;
    });
    const holders = await holdersOf(
      runner,
      queueId,
      refused.map((one) => one.job),
    );
    // A key whose holder finished meanwhile is free again: once more for that one.
    open = refused.filter(({ job, index }) => {
      const holder = holders.get(`${job.kind}\n${job.key}`);
      if (holder === undefined) return true;
      found[index] = { id: holder };
      return false;
    });
    // Nobody holds the key, and it was refused all the same: its id is taken (a sequence that went back).
    if (open.some(({ job }) => job.key === null) || (open.length > 0 && ++rounds === MAX_ROUNDS))
      throw new IdTakenError(open[0]!.job.id);
  }
  return found;
}

async function holdersOf(
  runner: Runner,
  queueId: number,
  refused: readonly NewJob[],
): Promise<Map<string, string>> {
  const keysOf = new Map<string, Set<string>>();
  for (const { kind, key } of refused) {
    if (key === null) continue;
    const keys = keysOf.get(kind) ?? new Set();
    keysOf.set(kind, keys.add(key));
  }
  const holders = new Map<string, string>();
  for (const [kind, keys] of keysOf) {
    const rows = await runner.run(findByKey, [queueId, kind, [...keys]]);
    for (const [id, key] of rows) holders.set(`${kind}\n${key}`, id!);
  }
  return holders;
}

/**
 * Repeats a batch whose commit may have been lost; to be called inside a transaction.
 * Answers the ids that are there already, running or finished: then the batch had been committed as a whole
 * and this transaction must be rolled back. With none there, the jobs have now been inserted.
 * @throws StaleLanesError
 */
export async function enqueueAgain(
  runner: Runner,
  queueId: number,
  batch: readonly NewJob[],
): Promise<Set<string>> {
  const ids = `{${batch.map((job) => job.id).join(",")}}`;
  const mine = inserted(await runner.run(insertUnlessThere, valuesOf(queueId, batch)));
  // A statement of its own: its snapshot is younger than any insert that the first one has waited for.
  const there = await runner.run(findById, [queueId, ids]);
  const before = new Set<string>();
  const seen = new Map<string, number>();
  for (const [id] of there) seen.set(id!, (seen.get(id!) ?? 0) + 1);
  for (const [id, times] of seen) if (!mine.has(id) || times > 1) before.add(id);
  return before;
}

/** Which of these ids exist, in any state. */
export async function existing(
  runner: Runner,
  queueId: number,
  ids: readonly string[],
): Promise<Set<string>> {
  const rows = await runner.run(findById, [queueId, `{${ids.join(",")}}`]);
  return new Set(rows.map(([id]) => id!));
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** The order in which keys are locked, by everybody. */
export const byKey = (a: NewJob, b: NewJob): number =>
  compare(a.kind, b.kind) || compare(a.key ?? "", b.key ?? "");

/** The unfinished job that holds a key. */
export async function findHolder(
  runner: Runner,
  queueId: number,
  kind: string,
  key: string,
): Promise<string | undefined> {
  const [row] = await runner.run(findByKey, [queueId, kind, [key]]);
  return row?.[0] ?? undefined;
}
