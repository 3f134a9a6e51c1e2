import type { ParsedJobFilter } from "../../job/job-filter.js";
import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { iso } from "./columns.js";
import { OUT_OF_ORDER_MS } from "../queues/ids.js";
import { type JobSummary, SUMMARY, jobSummary } from "./job.js";

/** A page looks at no more rows than this, however few of them fit. */
const LOOKED_AT_MOST = 20_000;
/** The same, where each row has its payload taken apart, or its errors looked up. */
const LOOKED_INTO_AT_MOST = 5_000;

// Newest first over the tables, in the order of their indexes by id, so that it stops with the page. The row at
// which the bound is reached comes as well, whether it fits or not: it says how far back was searched, less what ids
// of different processes are out of order by. A day of
// finish is a partition: those outside are not read, and those inside are bounded like all others.
// OFFSET 0 keeps each look-up by its key: as joins the planner may turn them round, and read a table whole.
// Payloads and errors are judged where the row is read: nobody carries them along.
const hasPayload = (row: string) =>
  `($17::text[] is null or ${row}.payload #> $17::text[] = any($18::jsonb[]))`;
const says = (error: string) =>
  `strpos(lower(concat(${error} ->> 'name', ': ', ${error} ->> 'message')), lower($19::text)) > 0`;
const hasFailedWith = (
  jobs: string,
  row: string,
) => `($19::text is null or ${row}.failures > 0 and exists (
             select from ${jobs}.attempt_error e
             where e.job_id = ${row}.id and e.queue_id = ${row}.queue_id and ${says("e.error")}))`;
const hasDiedOf = (row: string) =>
  `($19::text is null or coalesce(${says(`${row}.error`)}, false))`;

const lookedText = (jobs: string, letters: readonly string[]) => `
    select merged.id, merged.queue_id, merged.created_at, row_number() over (order by merged.id desc) as place,
      (merged.state = any($6::text[]) or merged.state = 'queued'
          and (merged.later and 'scheduled' = any($6::text[]) or merged.failed and 'retrying' = any($6::text[])))
        and ($7::text is null or merged.queue_id = (select q.id from ${jobs}.queue q where q.name = $7::text))
        and ($8::text is null or merged.kind = $8::text)
        and ($9::text is null or coalesce(merged.key = $9::text, false))
        and ($10::smallint is null or exists (select from ${jobs}.lane l
          where l.queue_id = merged.queue_id and l.id = merged.lane % 10000 and l.priority = $10::smallint))
        and merged.created_at >= $11::timestamptz and merged.created_at < $12::timestamptz
        and merged.said
        and (merged.finished_at is null or merged.finished_at >= $13::timestamptz and merged.finished_at < $14::timestamptz)
        as fits
    from (
      select u.id, u.queue_id, u.kind, u.lane, u.key, u.created_at, u.finished_at, u.state, u.later, u.failed, u.said
      from (
        (select j.id, j.queue_id, j.kind, j.lane, j.key, j.created_at, null::timestamptz as finished_at,
           case when j.lease_until >= now() then 'running' else 'queued' end as state,
           j.run_at > now() as later, j.failures > 0 as failed,
           ${hasPayload("j")} and ${hasFailedWith(jobs, "j")} as said
         from ${jobs}.job j
         where $1::boolean and $9::text is null and j.id < $4::bigint
         order by j.id desc limit $5::integer)
        union all
        (select held.id, held.queue_id, held.kind, held.lane, held.key, held.created_at, null::timestamptz,
           held.state, held.later, held.failed, held.said
         from (select distinct l.queue_id, l.kind from ${jobs}.lane l) k
         cross join lateral (
           select j.id, j.queue_id, j.kind, j.lane, j.key, j.created_at,
             case when j.lease_until >= now() then 'running' else 'queued' end as state,
             j.run_at > now() as later, j.failures > 0 as failed,
             ${hasPayload("j")} and ${hasFailedWith(jobs, "j")} as said
           from ${jobs}.job j where j.queue_id = k.queue_id and j.kind = k.kind and j.key = $9::text offset 0) held
         where $1::boolean and $9::text is not null and held.id < $4::bigint
         order by held.id desc limit $5::integer)
        union all
        (select d.id, d.queue_id, d.kind, d.lane, d.key, d.created_at, d.finished_at,
           case d.state when 1 then 'succeeded' when 2 then 'skipped' else 'cancelled' end, false, false,
           ${hasPayload("d")} and ${hasFailedWith(jobs, "d")}
         from ${jobs}.done d
         where $2::boolean and d.id < $4::bigint
           and d.finished_at >= $15::timestamptz and d.finished_at < $16::timestamptz
         order by d.id desc limit $5::integer)
        ${letters
          .map(
            (table) => `union all
        (select d.id, d.queue_id, d.kind, d.lane, d.key, d.created_at, d.finished_at, 'dead', false, false,
           ${hasPayload("d")} and ${hasDiedOf("d")}
         from ${jobs}.${table} d
         where $3::boolean and d.id < $4::bigint
         order by d.id desc limit $5::integer)`,
          )
          .join("\n        ")}
      ) u
      order by u.id desc limit $5::integer
    ) merged`;

const listText = (jobs: string, letters: readonly string[]) => `
select found.fits, found.bound, found.id,
  ${iso(`least(found.created_at + interval '${OUT_OF_ORDER_MS} ms', now())`)}, shown.*
from (
  select looked.id, looked.queue_id, looked.created_at, looked.fits, looked.place = $5::integer as bound
  from (${lookedText(jobs, letters)}
  ) looked
  where looked.fits or looked.place = $5::integer
  order by looked.id desc
  limit $20::integer
) found
left join lateral (
  select ${SUMMARY}
  from ${jobs}.job_status s where found.fits and s.queue_id = found.queue_id and s.number = found.id offset 0
) shown on true
order by found.id desc`;

// The same walk, whose page is as long as it may look: how many of them fit, and where it stopped.
const countText = (jobs: string, letters: readonly string[]) => `
select count(*) filter (where looked.fits), min(looked.id) filter (where looked.place = $5::integer)
from (${lookedText(jobs, letters)}
) looked`;
const listJobs = new Statement(null, (jobs) => listText(jobs, ["dead"]));
const listArchivedToo = new Statement(null, (jobs) => listText(jobs, ["dead", "dead_archive"]));
const countJobs = new Statement(null, (jobs) => countText(jobs, ["dead", "dead_archive"]));

// Before the tables are analysed the planner would read them whole, and sort.
const byIndex = new Statement(
  null,
  () => `set local enable_seqscan = off; set local enable_sort = off`,
);

export interface ListedPage {
  items: JobSummary[];
  /** The id number that the next page begins below; null when there is nothing older. */
  before: string | null;
  /** All that was created later has been looked at; null unless the bound ended the search. */
  searchedBackTo: string | null;
}

const MAX_BIGINT = "9223372036854775807";

/** A page of jobs, newest first; to be called inside a transaction. */
export async function list(
  runner: Runner,
  filter: ParsedJobFilter,
  limit: number,
  before: string | null,
  /** Whether the schema keeps archived dead letters. */
  archive: boolean,
): Promise<ListedPage> {
  await runner.run(byIndex);
  const values = [...valuesOf(filter, before), limit + 1];
  const rows = await runner.run(archive ? listArchivedToo : listJobs, values);
  return page(rows, limit);
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
  const [row] = await runner.run(countJobs, valuesOf(filter, before));
  return { count: Number(row![0]), before: row![1] ?? null };
}

function valuesOf(filter: ParsedJobFilter, before: string | null): unknown[] {
  const { states } = filter;
  const unfinished = filter.finishedSince === null && filter.finishedBefore === null;
  return [
    unfinished &&
      states.some((state) => ["queued", "running", "scheduled", "retrying"].includes(state)),
    states.some((state) => ["succeeded", "skipped", "cancelled"].includes(state)),
    states.includes("dead"),
    before ?? MAX_BIGINT,
    filter.error === null && filter.payload === null ? LOOKED_AT_MOST : LOOKED_INTO_AT_MOST,
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
    filter.payload && filter.payload.path,
    filter.payload && alike(filter.payload.value),
    filter.error,
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

/** The beginning of a time's day, so many days on. */
const daysFrom = (time: Date | null, days: number): string | undefined =>
  time === null
    ? undefined
    : new Date((Math.floor(time.getTime() / DAY_MS) + days) * DAY_MS).toISOString();

function page(rows: readonly Row[], limit: number): ListedPage {
  const here = rows.slice(0, limit);
  const items = here.filter(([fits]) => fits === "t").map((row) => jobSummary(row.slice(4)));
  const [, bound, id, searchedBackTo] = here.at(-1) ?? [];
  // One more was asked for than the page holds: it tells whether there is anything older.
  if (rows.length > limit) return { items, before: id!, searchedBackTo: null };
  return bound === "t"
    ? { items, before: id!, searchedBackTo: searchedBackTo! }
    : { items, before: null, searchedBackTo: null };
}
