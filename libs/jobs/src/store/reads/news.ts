import type { JobState } from "../../job/state.js";
import { formatJobId } from "../../job/job-id.js";
import { type Runner, Statement, arrayOf } from "../../pg/statement.js";
import { iso } from "./columns.js";
import { GRAVES, type Sought, lookup, soughtValues } from "./outcomes.js";
import { type JobLogLine, type JobProgress, PROGRESS, jobProgress } from "./reports.js";

/** Where a job is, and how far it has come. */
export interface Whereabouts {
  state: JobState;
  attempt: number;
  progress: JobProgress | null;
}

const findWhereabouts = new Statement(
  null,
  (jobs) => `
select f.queue_id, f.id, f.state, f.attempt, ${PROGRESS}
from (${lookup(jobs, GRAVES)}) f
left join ${jobs}.progress p on p.job_id = f.id and p.queue_id = f.queue_id`,
);

/** Of these jobs by id, as they are at one moment; what is in no place is left out. */
export async function whereabouts(
  runner: Runner,
  sought: readonly Sought[],
): Promise<Map<string, Whereabouts>> {
  const rows = await runner.run(findWhereabouts, soughtValues(sought));
  return new Map(
    rows.map(([queueId, id, state, attempt, ...progress]) => [
      formatJobId(Number(queueId), id!),
      { state: state as JobState, attempt: Number(attempt), progress: jobProgress(progress) },
    ]),
  );
}

/** The lines of a job after this one. */
export interface LinesAfter extends Sought {
  after: { attempt: number; line: number };
}

const findNewLines = new Statement(
  null,
  (jobs) => `
select f.place, l.attempt, l.line, ${iso("l.logged_at")}, l.text
from unnest($1::integer[], $2::bigint[], $3::integer[], $4::integer[])
  with ordinality f (queue_id, id, attempt, line, place)
cross join lateral (
  select l.attempt, l.line, l.logged_at, l.text from ${jobs}.job_log l
  where l.queue_id = f.queue_id and l.job_id = f.id and (l.attempt, l.line) > (f.attempt, f.line)
  order by l.attempt, l.line limit $5
) l
order by f.place, l.attempt, l.line`,
);

/** For each of these the lines after its own, oldest first, at most so many. */
export async function newLines(
  runner: Runner,
  batch: readonly LinesAfter[],
  limit: number,
): Promise<JobLogLine[][]> {
  const rows = await runner.run(findNewLines, [
    arrayOf(batch.map(({ queueId }) => queueId)),
    arrayOf(batch.map(({ number }) => number)),
    arrayOf(batch.map(({ after }) => after.attempt)),
    arrayOf(batch.map(({ after }) => after.line)),
    limit,
  ]);
  const found = batch.map((): JobLogLine[] => []);
  for (const [place, attempt, line, at, text] of rows)
    found[Number(place) - 1]!.push({
      attempt: Number(attempt),
      line: Number(line),
      at: at!,
      text: text!,
    });
  return found;
}
