import { type Runner, Statement } from "../../pg/statement.js";

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
