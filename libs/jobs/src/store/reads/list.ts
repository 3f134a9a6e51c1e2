import type { ParsedJobFilter } from "../../job/job-filter.js";
import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { iso } from "./columns.js";
import { OUT_OF_ORDER_MS } from "../queues/ids.js";
import { type JobSummary, SUMMARY, jobSummary } from "./job.js";

/** A page looks at no more rows than this, however few of them fit. */
const LOOKED_AT_MOST = 20_000;
/** The same, where each row has its payload taken apart, or its errors looked up. */
export const LOOKED_INTO_AT_MOST = 5_000;
/** For so long a statement looks into rows, and into one at least. */
const LOOKED_INTO_MS = 50;
/** Of the errors that are kept of a job. */
const ERRORS_LOOKED_AT = 20;

// Newest first over the tables, in the order of their indexes by id, so that it stops with the page. The row at
// which the bound is reached comes as well, whether it fits or not: it says how far back was searched, less what ids
// of different processes are out of order by. A day of
// finish is a partition: those outside are not read, and those inside are bounded like all others.
// OFFSET 0 keeps each look-up by its key: as joins the planner may turn them round, and read a table whole. It also
// keeps rows from being looked into before they are in order: those behind the first one for which there is no time
// left say nothing (null).
const fitting = (jobs: string) => `
  ((u.state = any($6::text[]) or u.state = 'queued'
      and (u.later and 'scheduled' = any($6::text[]) or u.failures > 0 and 'retrying' = any($6::text[])))
    and ($7::text is null or u.queue_id = (select q.id from ${jobs}.queue q where q.name = $7::text))
    and ($8::text is null or u.kind = $8::text)
    and ($9::text is null or u.key = $9::text)
    and ($10::smallint is null or exists (select from ${jobs}.lane l
      where l.queue_id = u.queue_id and l.id = u.lane % 10000 and l.priority = $10::smallint))
    and u.created_at >= $11::timestamptz and u.created_at < $12::timestamptz
    and (u.finished_at is null or u.finished_at >= $13::timestamptz and u.finished_at < $14::timestamptz)) is true`;
const hasPayload = `($17::text[] is null or coalesce(u.payload #> $17::text[] = any($18::jsonb[]), false))`;
// What is stored elsewhere, in pieces, is fetched with each use of it: || gathers it once.
const says = (error: string) => `(
      select strpos(lower(concat(whole.error ->> 'name', ': ', whole.error ->> 'message')), lower($19::text)) > 0
      from (select ${error} || '{}'::jsonb as error offset 0) whole)`;
const hasError = (
  jobs: string,
) => `($19::text is null or case when u.state = 'dead' then coalesce(${says("u.error")}, false)
    else u.failures > 0 and exists (
      select from (
        select e.error from ${jobs}.attempt_error e
        where e.job_id = u.id and e.queue_id = u.queue_id
        order by e.failed_at desc limit ${ERRORS_LOOKED_AT} offset 0) kept
      where ${says("kept.error")}) end)`;
// The clock of the subselect is read once, by the first row that is looked into: so that one is, whatever came before.
const judged = (jobs: string) => `
  case when not (${fitting(jobs)}) then false
    when clock_timestamp() <= (select clock_timestamp()) + interval '${LOOKED_INTO_MS} ms'
    then ${hasPayload} and ${hasError(jobs)} end`;

const lookedText = (jobs: string, letters: readonly string[], into: boolean) => `
    select u.id, u.queue_id, u.created_at, ${into ? "judged.fits" : `${fitting(jobs)} as fits`}, row_number() over (order by u.id desc) as place
    from (
      select u.* from (
        (select j.id, j.queue_id, j.kind, j.lane, j.key, j.created_at, null::timestamptz as finished_at,
           case when j.lease_until >= now() then 'running' else 'queued' end as state,
           j.run_at > now() as later, j.failures${into ? ", j.payload, null::jsonb as error" : ""}
         from ${jobs}.job j
         where $1::boolean and $9::text is null and j.id < $4::bigint
         order by j.id desc limit $5::integer)
        union all
        (select held.*
         from (select distinct l.queue_id, l.kind from ${jobs}.lane l) k
         cross join lateral (
           select j.id, j.queue_id, j.kind, j.lane, j.key, j.created_at, null::timestamptz,
             case when j.lease_until >= now() then 'running' else 'queued' end,
             j.run_at > now(), j.failures${into ? ", j.payload, null::jsonb" : ""}
           from ${jobs}.job j where j.queue_id = k.queue_id and j.kind = k.kind and j.key = $9::text offset 0) held
         where $1::boolean and $9::text is not null and held.id < $4::bigint
         order by held.id desc limit $5::integer)
        union all
        (select d.id, d.queue_id, d.kind, d.lane, d.key, d.created_at, d.finished_at,
           case d.state when 1 then 'succeeded' when 2 then 'skipped' else 'cancelled' end, false, d.failures${into ? ", d.payload, null::jsonb" : ""}
         from ${jobs}.done d
         where $2::boolean and d.id < $4::bigint
           and d.finished_at >= $15::timestamptz and d.finished_at < $16::timestamptz
         order by d.id desc limit $5::integer)
        ${letters
          .map(
            (table) => `union all
        (select d.id, d.queue_id, d.kind, d.lane, d.key, d.created_at, d.finished_at, 'dead', false, d.failures${into ? ", d.payload, d.error" : ""}
         from ${jobs}.${table} d
         where $3::boolean and d.id < $4::bigint
         order by d.id desc limit $5::integer)`,
          )
          .join("\n        ")}
      ) u
      order by u.id desc limit $5::integer
    ) u
    ${into ? `cross join lateral (select ${judged(jobs)} as fits offset 0) judged` : ""}`;

const listText = (jobs: string, letters: readonly string[], into: boolean) => `
select found.fits, found.place, found.id,
  ${iso(`least(found.created_at + interval '${OUT_OF_ORDER_MS} ms', now())`)}, shown.*
from (
  select looked.id, looked.queue_id, looked.created_at, looked.fits, looked.place
  from (${lookedText(jobs, letters, into)}
  ) looked
  where looked.fits is not false or looked.place = $5::integer
  order by looked.id desc
  limit $${into ? 20 : 17}::integer
) found
left join lateral (
  select ${SUMMARY}
  from ${jobs}.job_status s where found.fits and s.queue_id = found.queue_id and s.number = found.id offset 0
) shown on true
order by found.id desc`;

// The same walk, whose page is as long as it may look: how many of them fit, and where it stopped.
const countText = (jobs: string, letters: readonly string[], into: boolean) => `
with looked as materialized (${lookedText(jobs, letters, into)}
), stopped as (
  select coalesce(max(looked.id) filter (where looked.fits is null) + 1, min(looked.id) filter (where looked.place = $5::integer)) as below
  from looked
)
select count(*) filter (where looked.fits and (stopped.below is null or looked.id >= stopped.below)), stopped.below
from stopped left join looked on true
group by stopped.below`;

const LETTERS = ["dead"];
const ARCHIVED_TOO = ["dead", "dead_archive"];
const each = (text: (jobs: string, into: boolean) => string) => ({
  looking: new Statement(null, (jobs) => text(jobs, false)),
  lookingInto: new Statement(null, (jobs) => text(jobs, true)),
});
const listJobs = each((jobs, into) => listText(jobs, LETTERS, into));
const listArchivedToo = each((jobs, into) => listText(jobs, ARCHIVED_TOO, into));
const countJobs = each((jobs, into) => countText(jobs, ARCHIVED_TOO, into));

// Before the tables are analysed the planner would read them whole, and sort.
const byIndex = new Statement(
  null,
  () => `set local enable_seqscan = off; set local enable_sort = off`,
);

export interface ListedPage {
  items: JobSummary[];
  /** The id number that the next page begins below; null when there is nothing older. */
  before: string | null;
  /** All that was created later has been looked at; null unless a bound ended the search. */
  searchedBackTo: string | null;
  /** How many rows were looked at, when a bound ended the search. */
  looked: number;
}

const MAX_BIGINT = "9223372036854775807";

/** Whether rows have to be looked into, which may take long: then a page ends with its time, too. */
export const looksInto = ({ error, payload }: ParsedJobFilter): boolean =>
  error !== null || payload !== null;

/** A page of jobs, newest first; to be called inside a transaction. */
export async function list(
  runner: Runner,
  filter: ParsedJobFilter,
  limit: number,
  before: string | null,
  /** Whether the schema keeps archived dead letters. */
  archive: boolean,
  /** No more rows are looked at. */
  most: number = mostLooked(filter),
): Promise<ListedPage> {
  await runner.run(byIndex);
  const statements = archive ? listArchivedToo : listJobs;
  const values = [...valuesOf(filter, before, most), limit + 1];
  const rows = await runner.run(of(statements, filter), values);
  return page(rows, limit, most);
}

/**
 * How many of the next jobs fit, as many looked at as by a page; `before`: where to go on, null at the end. To be called
 * inside a transaction, on a schema with an archive.
 */
export async function countPage(
  runner: Runner,
  filter: ParsedJobFilter,
  before: string | null,
): Promise<{ count: number; before: string | null }> {
  await runner.run(byIndex);
  const values = valuesOf(filter, before, mostLooked(filter));
  const [row] = await runner.run(of(countJobs, filter), values);
  return { count: Number(row![0]), before: row![1] ?? null };
}

const mostLooked = (filter: ParsedJobFilter): number =>
  looksInto(filter) ? LOOKED_INTO_AT_MOST : LOOKED_AT_MOST;

const of = (statements: ReturnType<typeof each>, filter: ParsedJobFilter): Statement =>
  looksInto(filter) ? statements.lookingInto : statements.looking;

function valuesOf(filter: ParsedJobFilter, before: string | null, most: number): unknown[] {
  const { states } = filter;
  const unfinished = filter.finishedSince === null && filter.finishedBefore === null;
  return [
    unfinished &&
      states.some((state) => ["queued", "running", "scheduled", "retrying"].includes(state)),
    states.some((state) => ["succeeded", "skipped", "cancelled"].includes(state)),
    states.includes("dead"),
    before ?? MAX_BIGINT,
    most,
    states,
    filter.queue,
    filter.kind,
    filter.key,
    filter.priority,
    filter.createdSince?.toISOString() ?? "-infinity",
    filter.createdBefore?.toISOString() ?? "infinity",
    filter.finishedSince?.toISOString() ?? "-infinity",
    filter.finishedBefore?.toISOString() ?? "infinity",
    daysFrom(filter.finishedSince, 0) ?? "-infinity",
    daysFrom(filter.finishedBefore, 1) ?? "infinity",
    ...(looksInto(filter)
      ? [filter.payload?.path ?? null, filter.payload && alike(filter.payload.value), filter.error]
      : []),
  ];
}

/** What JSON may have for a text: the text, and the number or the boolean that is written so. */
function alike(text: string): string[] {
  const all = [JSON.stringify(text)];
  if (text === "true" || text === "false" || PLAIN_NUMBER.test(text)) all.push(text);
  else if (NUMBER.test(text) && Number.isFinite(Number(text))) all.push(String(Number(text)));
  return all;
}

const PLAIN_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?e[+-]?\d+$/i;

const DAY_MS = 86_400_000;

/** What PostgreSQL would not read as a time any more. */
const AFTER_ALL_TIMES = Date.UTC(10_000, 0);

/** The beginning of a time's day, so many days on. */
function daysFrom(time: Date | null, days: number): string | undefined {
  if (time === null) return undefined;
  const day = (Math.floor(time.getTime() / DAY_MS) + days) * DAY_MS;
  return day < AFTER_ALL_TIMES ? new Date(day).toISOString() : undefined;
}

function page(rows: readonly Row[], limit: number, most: number): ListedPage {
  const unread = rows.findIndex(([fits]) => fits === null);
  const read = unread === -1 ? rows : rows.slice(0, unread);
  const items = read
    .slice(0, limit)
    .filter(([fits]) => fits === "t")
    .map((row) => jobSummary(row.slice(4)));
  // One more was asked for than the page holds: it tells whether there is anything older.
  if (read.length > limit)
    return { items, before: read[limit - 1]![2]!, searchedBackTo: null, looked: most };
  if (unread !== -1) {
    const [, place, id, searchedBackTo] = rows[unread]!;
    const before = String(BigInt(id!) + 1n);
    return { items, before, searchedBackTo: searchedBackTo!, looked: Number(place) - 1 };
  }
  const [, place, id, searchedBackTo] = read.at(-1) ?? [];
  return Number(place) === most
    ? { items, before: id!, searchedBackTo: searchedBackTo!, looked: most }
    : { items, before: null, searchedBackTo: null, looked: most };
}
