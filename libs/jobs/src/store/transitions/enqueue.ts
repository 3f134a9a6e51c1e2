import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { STANDS, StaleLanesError, standing, standingValues } from "../queues/standing.js";
import { briefValue, waitsBriefly } from "./brief-wait.js";
import { alikeValues, insertAlike } from "./enqueue-alike.js";
import { insertOne, insertOneWithHeaders, oneValues } from "./enqueue-one.js";
import {
  NEW_JOB_COLUMNS,
  NEW_JOB_VALUES,
  type NewJob,
  headersOf,
  newJobValues,
  newJobs,
} from "./new-jobs.js";

/** The job that has the key after the call, or that was made without one. */
export interface Holder {
  readonly id: string;
  /** Of a call that wanted to replace and met a job: whether it did. */
  readonly replaced?: boolean;
}

const BRIEF = `$${NEW_JOB_VALUES + 3}`;

const inserting = (jobs: string, headers?: string) => `
with ${standing(jobs, "$1::integer", NEW_JOB_VALUES + 1)}, inserted as (
  insert into ${jobs}.job (${NEW_JOB_COLUMNS}${headers === undefined ? "" : ", headers"})${newJobs(headers)}
  where ${STANDS}`;

/** Jobs without a key, sent for the first time: nothing can be in their way. For those that are not alike. */
const insertSQL = (jobs: string, headers?: string) => `
-- -> queued
${inserting(jobs, headers)}
)
select 'stale' where not ${STANDS}`;
const insert = new Statement("enqueue", (jobs) => insertSQL(jobs));
const insertWithHeaders = new Statement("enqueue_with_headers", (jobs) =>
  insertSQL(jobs, `$${NEW_JOB_VALUES + 3}`),
);

/** Jobs with a key, or sent again: what is there already stays as it is. */
const insertUnlessThereSQL = (jobs: string, headers?: string) => `
-- -> queued
${inserting(jobs, headers)} and ${waitsBriefly(BRIEF)}
  on conflict do nothing
  returning id
)
select id::text from inserted
union all select null where not ${STANDS}`;
const insertUnlessThere = new Statement("enqueue_unless_there", (jobs) =>
  insertUnlessThereSQL(jobs),
);
const insertUnlessThereWithHeaders = new Statement("enqueue_unless_there_with_headers", (jobs) =>
  insertUnlessThereSQL(jobs, `$${NEW_JOB_VALUES + 4}`),
);

// Each key by itself: as a list, servers before 17 may walk all keys of the kind and compare them with it.
const findByKey = new Statement(
  "find_by_key",
  (jobs) => `
select one.id::text, wanted.key
from unnest($3::text[]) wanted (key)
cross join lateral (
  select j.id from ${jobs}.job j where j.queue_id = $1::integer and j.kind = $2::text and j.key = wanted.key limit 1
) one`,
);

const findById = new Statement(
  "find_by_id",
  (jobs) => `
select id::text from ${jobs}.job where id = any($2::bigint[]) and queue_id = $1::integer
union all select id::text from ${jobs}.done where id = any($2::bigint[]) and queue_id = $1::integer
union all select id::text from ${jobs}.dead where id = any($2::bigint[]) and queue_id = $1::integer`,
);

const valuesOf = (queueId: number, batch: readonly NewJob[]) => [
  ...newJobValues(queueId, batch),
  ...standingValues(batch),
];

/** Those that are not there yet; answers the ids of these. @throws StaleLanesError */
async function insertMissing(
  runner: Runner,
  queueId: number,
  batch: readonly NewJob[],
  lockMs?: number,
): Promise<Set<string>> {
  const values = [...valuesOf(queueId, batch), briefValue(lockMs)];
  const headers = headersOf(batch);
  return inserted(
    headers === undefined
      ? await runner.run(insertUnlessThere, values)
      : await runner.run(insertUnlessThereWithHeaders, [...values, headers]),
  );
}

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
  if (!(await inserts(runner, queueId, batch))) throw new StaleLanesError();
}

/** Answers whether queue and lanes stood as they are known. */
async function inserts(
  runner: Runner,
  queueId: number,
  batch: readonly NewJob[],
): Promise<boolean> {
  const headers = headersOf(batch);
  const one = oneValues(queueId, batch);
  if (one) {
    const made = headers
      ? await runner.run(insertOneWithHeaders, [...one, batch[0]!.headers])
      : await runner.run(insertOne, one);
    return made.length === 1;
  }
  if (headers !== undefined) {
    const values = [...valuesOf(queueId, batch), headers];
    return (await runner.run(insertWithHeaders, values)).length === 0;
  }
  const alike = alikeValues(queueId, batch);
  const stale = alike
    ? await runner.run(insertAlike, alike)
    : await runner.run(insert, valuesOf(queueId, batch));
  return stale.length === 0;
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
 * The batch goes in the order of its keys, so that two of them cannot wait for one another; for each of them no
 * longer than `lockMs`, when that is given: otherwise as long as its session, or transaction, says.
 * @throws StaleLanesError
 */
export async function enqueueKeyed(
  runner: Runner,
  queueId: number,
  batch: readonly NewJob[],
  lockMs?: number,
): Promise<Holder[]> {
  const found: Holder[] = Array.from({ length: batch.length });
  let rounds = 0;
  let open = batch.map((job, index) => ({ job, index }));
  while (open.length > 0) {
    open.sort((a, b) => byKey(a.job, b.job) || a.index - b.index);
    const jobs = open.map((one) => one.job);
    const created = await insertMissing(runner, queueId, jobs, lockMs);
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
  const mine = await insertMissing(runner, queueId, batch);
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
