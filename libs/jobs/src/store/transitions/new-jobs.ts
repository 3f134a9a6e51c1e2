import type { OnConflict } from "../../job/enqueue-options.js";
import { arrayOf } from "../../pg/statement.js";
import type { NamedLane } from "../queues/standing.js";

/** What a key asks for beyond being unique while its job is unfinished. */
export interface Unique {
  /** For how long it is unique at least, from now; null: no longer than its job is unfinished. */
  windowMs: number | null;
  /** What to do with a queued job that holds the key. */
  onConflict: OnConflict;
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
  /** What brought it, as JSON text; absent: a call that says no more of itself. */
  headers?: string;
  /** JSON text. */
  payload: string;
}

// What differs from job to job comes by itself, payloads as elements of one array: as records with all of their fields
// they cost PostgreSQL twice as much to read. What mostly does not differ comes once, and each job names its place.
// By the clock of the statement, not of the transaction: a delay counts from the call, and a job of a transaction that
// has been open for long lies as near to the claims' cursors as it can when it is committed.
/**
 * SQL: jobs of one queue in their order, as rows of `job`, from the parameters that {@link newJobValues} gives; with
 * headers also from the parameter `headers`, of {@link headersOf}.
 */
export const newJobs = (headers?: string) => `
  select id, $1::integer, ($8::smallint[])[place], ($9::text[])[place],
    coalesce(at, to_timestamp(extract(epoch from statement_timestamp())::float8 + coalesce(delay, $7::float8) / 1000)),
    ($10::smallint[])[place], ($11::bigint[])[place], key, payload${headers === undefined ? "" : ", nullif(headers, 'null')"}
  from rows from (
    unnest($2::bigint[]), jsonb_array_elements($3::text::jsonb), jsonb_array_elements_text($4::text::jsonb),
    unnest($5::timestamptz[]), unnest($6::float8[]), unnest($12::smallint[])${headers === undefined ? "" : `, jsonb_array_elements(${headers}::text::jsonb)`}
  ) as new (id, payload, key, at, delay, place${headers === undefined ? "" : ", headers"})`;

/** The headers of a batch, as one parameter; undefined: none has any. */
export const headersOf = (batch: readonly NewJob[]): string | undefined =>
  batch.some(({ headers }) => headers !== undefined)
    ? `[${batch.map(({ headers }) => headers ?? "null").join(",")}]`
    : undefined;

/** How many parameters {@link newJobValues} gives. */
export const NEW_JOB_VALUES = 12;

/** The columns of {@link newJobs} without headers, which come last. */
export const NEW_JOB_COLUMNS =
  "id, queue_id, lane, kind, run_at, attempts, timeout_ms, key, payload";

/** So many sorts of jobs are looked through for an equal one. */
const MAX_SORTS = 16;

/** A list that all jobs leave empty, or have in common, is null: its rows are then filled up with nulls. */
export function newJobValues(queueId: number, batch: readonly NewJob[]): unknown[] {
  const [first] = batch as [NewJob, ...NewJob[]];
  const sorts: NewJob[] = [];
  const places: number[] = [];
  let payloads = "";
  let keyed = false;
  let atOnce = true;
  for (const job of batch) {
    // By hand: it is JSON text already and would be parsed and written again.
    payloads += `${payloads === "" ? "[" : ","}${job.payload}`;
    keyed ||= job.key !== null;
    atOnce &&= job.at === null && job.delayMs === first.delayMs;
    places.push(placeOf(job, sorts));
  }
  return [
    queueId,
    arrayOf(batch.map(({ id }) => id)),
    `${payloads}]`,
    keyed ? JSON.stringify(batch.map(({ key }) => key)) : null,
    atOnce ? null : batch.map(({ at }) => at?.toISOString() ?? null),
    atOnce ? null : arrayOf(batch.map(({ delayMs }) => delayMs)),
    first.delayMs,
    arrayOf(sorts.map(({ lane }) => lane)),
    sorts.map(({ kind }) => kind),
    sorts.map(({ attempts }) => attempts),
    sorts.map(({ timeoutMs }) => timeoutMs),
    arrayOf(places),
  ];
}

/** Where in `sorts` jobs like this one are, from 1. */
function placeOf(job: NewJob, sorts: NewJob[]): number {
  const latest = sorts.at(-1);
  if (latest && isLike(job, latest)) return sorts.length;
  const known = sorts.length > MAX_SORTS ? -1 : sorts.findIndex((one) => isLike(job, one));
  return known === -1 ? sorts.push(job) : known + 1;
}

/** Jobs that differ in nothing but id, time, key and payload. */
export const isLike = (a: NewJob, b: NewJob): boolean =>
  a.lane === b.lane &&
  a.kind === b.kind &&
  a.attempts === b.attempts &&
  a.timeoutMs === b.timeoutMs;
