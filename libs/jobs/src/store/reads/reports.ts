import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { iso } from "./columns.js";

/** How far a job has come, as one of its attempts last said. */
export interface JobProgress {
  percent: number;
  note: string | null;
  /** Which attempt said so: a newer one may not have said anything yet. */
  attempt: number;
  at: string;
}

/** One line that a handler logged. */
export interface JobLogLine {
  attempt: number;
  /** Its number within the attempt, from 1. */
  line: number;
  at: string;
  text: string;
}

/** The columns of a {@link JobProgress}, of the table as `p`. */
export const PROGRESS = `p.percent, p.note, p.attempt, ${iso("p.reported_at")}`;

const getProgress = new Statement(
  "get_progress",
  (jobs) => `
select ${PROGRESS}
from ${jobs}.progress p where p.queue_id = $1::integer and p.job_id = $2::bigint`,
);

const listLines = new Statement(
  "list_lines",
  (jobs) => `
select l.attempt, l.line, ${iso("l.logged_at")}, l.text
from ${jobs}.job_log l
where l.queue_id = $1::integer and l.job_id = $2::bigint and (l.attempt, l.line) > ($3::integer, $4::integer)
  and ($5::integer is null or l.attempt = $5::integer)
order by l.attempt, l.line limit $6::integer`,
);

/** Reads the columns of {@link PROGRESS}; null when there is no such row. */
export function jobProgress([percent, note, attempt, at]: Row): JobProgress | null {
  if (percent === null || percent === undefined) return null;
  return { percent: Number(percent), note: note ?? null, attempt: Number(attempt), at: at! };
}

export async function progress(
  runner: Runner,
  queueId: number,
  id: string,
): Promise<JobProgress | null> {
  const [row] = await runner.run(getProgress, [queueId, id]);
  return row ? jobProgress(row) : null;
}

/** The lines after this one, oldest first. */
export async function lines(
  runner: Runner,
  queueId: number,
  id: string,
  after: { attempt: number; line: number },
  attempt: number | null,
  limit: number,
): Promise<JobLogLine[]> {
  const rows = await runner.run(listLines, [
    queueId,
    id,
    after.attempt,
    after.line,
    attempt,
    limit,
  ]);
  return rows.map(([by, line, at, text]) => ({
    attempt: Number(by),
    line: Number(line),
    at: at!,
    text: text!,
  }));
}
