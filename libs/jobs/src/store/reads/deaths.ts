import { type Runner, Statement } from "../../pg/statement.js";
import { iso } from "./columns.js";
import { type JobSummary, SUMMARY, jobSummary } from "./job.js";

/** How many jobs of a kind have lately died. */
export interface KindDeaths {
  queue: string;
  kind: string;
  /** Of each queue the newest 10,001 are looked at. */
  dead: number;
}

// By the index of ages, from the newest on: what has died before is not looked at, however much that is. Archived letters
// are older.
const recentDeaths = new Statement(
  "recent_deaths",
  (jobs) => `
select q.name, late.kind, count(*)
from ${jobs}.queue q
cross join lateral (
  select d.kind from ${jobs}.dead d
  where d.queue_id = q.id and d.lane > -1 and d.finished_at > now() - $1::float8 * interval '1 ms'
  order by d.finished_at desc limit 10001) late
group by 1, 2 order by 3 desc, 1, 2`,
);

/** What has died within so many ms and is dead still, by queue and kind, the most first. */
export async function deaths(runner: Runner, withinMs: number): Promise<KindDeaths[]> {
  const rows = await runner.run(recentDeaths, [withinMs]);
  return rows.map(([queue, kind, dead]) => ({ queue: queue!, kind: kind!, dead: Number(dead) }));
}

/** What has died since a time, as far as it is dead still. */
export interface RecentDeaths {
  /** The oldest first. */
  items: JobSummary[];
  /** When it was read, by the database's clock. */
  at: string;
  /** False: there are more than were asked for. */
  complete: boolean;
}

// By the same index, from the time on. One row is there in any case, to say what time it is.
const diedSince = new Statement(
  "died_since",
  (jobs) => `
select ${iso("now()")}, shown.*
from (select) always
left join lateral (
  select ${SUMMARY}
  from (
    select d.queue_id, d.id, d.finished_at
    from ${jobs}.queue q
    cross join lateral (
      select d.queue_id, d.id, d.finished_at from ${jobs}.dead d
      where d.queue_id = q.id and d.lane > -1 and d.finished_at > $1::timestamptz
      order by d.finished_at limit $2::integer) d
    order by d.finished_at, d.id limit $2::integer) late
  cross join lateral (
    select s.* from ${jobs}.job_status s where s.queue_id = late.queue_id and s.number = late.id offset 0) s
  where s.state = 'dead'
  order by late.finished_at, late.id
) shown on true`,
);

/** What has died after `since` (null: now), the oldest first, at most so many. */
export async function died(
  runner: Runner,
  since: string | null,
  limit: number,
): Promise<RecentDeaths> {
  const rows = await runner.run(diedSince, [since ?? "infinity", limit + 1]);
  const found = rows.filter((row) => row[1] !== null).map((row) => jobSummary(row.slice(1)));
  return { items: found.slice(0, limit), at: rows[0]![0]!, complete: found.length <= limit };
}
