import { type Row, type Runner, Statement } from "../../pg/statement.js";

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
}

/** One failed attempt, as a dead letter keeps it. */
export interface AttemptError {
  attempt: number;
  startedAt: string | null;
  failedAt: string;
  error: { name: string; message: string; stack?: string; cause?: unknown };
}

const iso = (column: string) =>
  `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const getJob = new Statement(
  "get_job",
  (jobs) => `
select id, kind, queue, state, priority, attempt, failures, attempts, ${iso("run_at")}, ${iso("created_at")},
  ${iso("started_at")}, ${iso("finished_at")}, key, worker, last_error, payload, result
from ${jobs}.job_status where queue_id = $1::integer and number = $2::bigint`,
);

const getErrors = new Statement(
  "get_errors",
  (jobs) => `
select errors from ${jobs}.dead where queue_id = $1::integer and id = $2::bigint
union all
select jsonb_agg(jsonb_build_object('attempt', attempt, 'startedAt', started_at, 'failedAt', failed_at, 'error', error) order by attempt)
from ${jobs}.attempt_error where queue_id = $1::integer and job_id = $2::bigint
limit 1`,
);

const json = (text: string | null | undefined): unknown =>
  text === null || text === undefined ? null : JSON.parse(text);

function jobView(row: Row): JobView {
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
    payload,
    result,
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
    payload: json(payload),
    result: json(result),
  };
}

export async function get(runner: Runner, queueId: number, id: string): Promise<JobView | null> {
  const [row] = await runner.run(getJob, [queueId, id]);
  return row ? jobView(row) : null;
}

/** Each failed attempt with its error, oldest first. */
export async function attempts(
  runner: Runner,
  queueId: number,
  id: string,
): Promise<AttemptError[]> {
  const [row] = await runner.run(getErrors, [queueId, id]);
  return (json(row?.[0]) as AttemptError[] | null) ?? [];
}
