import type { ErrorReport } from "../../job/error-report.js";
import { whyUnstored } from "../../job/stored-result.js";
import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { iso } from "./columns.js";
import { PROGRESS, type JobProgress, jobProgress } from "./reports.js";

/** A job as the view `job_status` shows it; times are ISO strings. */
export interface JobView {
  id: string;
  kind: string;
  queue: string;
  state: "queued" | "running" | "succeeded" | "skipped" | "cancelled" | "dead";
  priority: number;
  attempt: number;
  failures: number;
  /** Null: neither call nor definition said; the worker's default holds. */
  attempts: number | null;
  runAt: string;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  key: string | null;
  worker: string | null;
  lastError: string | null;
  payload: unknown;
  result: unknown;
  /** Why what its handler returned could not be stored: then `result` is null. Null otherwise. */
  resultProblem: string | null;
  /** What an attempt last said with `job.progress()`; null: none has. */
  progress: JobProgress | null;
}

/** A job in a list: without its payload and result, which may be long, and its progress. */
export type JobSummary = Omit<JobView, "payload" | "result" | "resultProblem" | "progress">;

/** One failed attempt, as a dead letter keeps it. */
export interface AttemptError {
  attempt: number;
  startedAt: string | null;
  failedAt: string;
  error: ErrorReport;
}

/** The columns of a {@link JobSummary}, of the view as `s`. */
export const SUMMARY = `s.id, s.kind, s.queue, s.state, s.priority, s.attempt, s.failures, s.attempts, ${iso("s.run_at")},
  ${iso("s.created_at")}, ${iso("s.started_at")}, ${iso("s.finished_at")}, s.key, s.worker, s.last_error`;

const getJob = new Statement(
  "get_job",
  (jobs) => `
select ${SUMMARY}, s.payload, s.result
from ${jobs}.job_status s where s.queue_id = $1::integer and s.number = $2::bigint`,
);

// A schema of the release before has no progress.
const getJobWithProgress = new Statement(
  "get_job_with_progress",
  (jobs) => `
select ${SUMMARY}, s.payload, s.result, ${PROGRESS}
from ${jobs}.job_status s
left join ${jobs}.progress p on p.queue_id = $1::integer and p.job_id = $2::bigint
where s.queue_id = $1::integer and s.number = $2::bigint`,
);

const errorsText = (jobs: string, places: readonly string[]) => `
${places
  .map(
    (
      place,
    ) => `select (select jsonb_agg(x - '{generation,ended}'::text[] order by place) from jsonb_array_elements(errors) with ordinality one (x, place))
from ${jobs}.${place} where queue_id = $1::integer and id = $2::bigint
union all
`,
  )
  .join(
    "",
  )}select jsonb_agg(jsonb_build_object('attempt', attempt, 'startedAt', started_at, 'failedAt', failed_at, 'error', error) order by attempt)
from ${jobs}.attempt_error where queue_id = $1::integer and job_id = $2::bigint
limit 1`;
const getErrors = new Statement("get_errors", (jobs) => errorsText(jobs, ["dead"]));
const getArchivedErrors = new Statement("get_errors_or_archived", (jobs) =>
  errorsText(jobs, ["dead", "dead_archive"]),
);

const json = (text: string | null | undefined): unknown =>
  text === null || text === undefined ? null : JSON.parse(text);

/** Reads the columns of {@link SUMMARY}. */
export function jobSummary(row: Row): JobSummary {
  const [
    id,
    kind,
    queue,
    state,
    priority,
    attempt,
    failures,
    attempts,
    runAt,
    createdAt,
    startedAt,
    finishedAt,
    key,
    worker,
    lastError,
  ] = row;
  return {
    id: id!,
    kind: kind!,
    queue: queue!,
    state: state as JobView["state"],
    priority: Number(priority),
    attempt: Number(attempt),
    failures: Number(failures),
    attempts: attempts === null ? null : Number(attempts),
    runAt: runAt!,
    createdAt: createdAt!,
    startedAt: startedAt ?? null,
    finishedAt: finishedAt ?? null,
    key: key ?? null,
    worker: worker ?? null,
    lastError: lastError ?? null,
  };
}

function jobView(row: Row): JobView {
  const summary = jobSummary(row);
  const [payload, result, ...progress] = row.slice(15);
  const resultProblem = (summary.state === "succeeded" && whyUnstored(result ?? null)) || null;
  return {
    ...summary,
    payload: json(payload),
    result: resultProblem === null ? json(result) : null,
    resultProblem,
    progress: jobProgress(progress),
  };
}

/** The job, with what it said of its progress where the schema keeps that. */
export async function get(
  runner: Runner,
  queueId: number,
  id: string,
  withProgress: boolean,
): Promise<JobView | null> {
  const [row] = await runner.run(withProgress ? getJobWithProgress : getJob, [queueId, id]);
  return row ? jobView(row) : null;
}

/** Each failed attempt with its error, oldest first. */
export async function attempts(
  runner: Runner,
  queueId: number,
  id: string,
  archive = false,
): Promise<AttemptError[]> {
  const [row] = await runner.run(archive ? getArchivedErrors : getErrors, [queueId, id]);
  return (json(row?.[0]) as AttemptError[] | null) ?? [];
}
