import type { JobState } from "../../job/state.js";
import { type Runner, Statement, arrayOf } from "../../pg/statement.js";

/** Where a job is, and what it left when it ended. */
export interface Outcome {
  queueId: number;
  /** Its number, as PostgreSQL writes it. */
  id: string;
  kind: string;
  state: JobState;
  /** Unfinished, and its settle is asked to tell. */
  awaited: boolean;
  /** JSON text: a result, the reason of a skip, the name and message of the last error; null for none. */
  told: string | null;
}

/** Which jobs: numbers are unique over all queues, so that each list may be of several. */
export interface Sought {
  queueId: number;
  number: string;
}

/** Where dead jobs lie. */
export const GRAVES = ["dead", "dead_archive"] as const;
type Grave = (typeof GRAVES)[number];

// Only what is not in `job` is looked for elsewhere, where each day would have to be asked; and in one snapshot, so that
// a job which moves meanwhile is seen in one of its places. Unnamed: a plan of the days when the tables were empty would
// walk them later.
export const lookup = (jobs: string, graves: readonly Grave[]) => `
with unfinished as materialized (
  select j.queue_id, j.id, j.kind, j.attempt, coalesce(j.lease_until >= now(), false) as running,
    coalesce(j.awaited, false) as awaited
  from ${jobs}.job j where j.id = any($2::bigint[]) and j.queue_id = any($1::integer[])
), sought as materialized (
  select unnest($2::bigint[]) as id except select id from unfinished
)
select queue_id, id, kind, case when running then 'running' else 'queued' end as state, awaited,
  null::jsonb as told, attempt
from unfinished
union all
select d.queue_id, d.id, d.kind, case d.state when 1 then 'succeeded' when 2 then 'skipped' else 'cancelled' end,
  false, d.result, d.attempt
from ${jobs}.done d where d.id = any(array(select id from sought)) and d.queue_id = any($1::integer[])
${graves
  .map(
    (grave) => `union all
select d.queue_id, d.id, d.kind, 'dead', false,
  case when d.error is not null then jsonb_build_object('name', d.error ->> 'name', 'message', d.error ->> 'message') end,
  d.attempt
from ${jobs}.${grave} d where d.id = any(array(select id from sought)) and d.queue_id = any($1::integer[])`,
  )
  .join("\n")}`;

const findOutcomes = new Statement(null, (jobs) => lookup(jobs, ["dead"]));
const findOutcomesOrArchived = new Statement(null, (jobs) => lookup(jobs, GRAVES));

/** The parameters of a statement over jobs of several queues. */
export const soughtValues = (sought: readonly Sought[]): [string, string] => [
  arrayOf(new Set(sought.map(({ queueId }) => queueId))),
  arrayOf(sought.map(({ number }) => number)),
];

/** Where these jobs are, of one moment; what is in no place is left out. */
export async function outcomes(
  runner: Runner,
  sought: readonly Sought[],
  archive: boolean,
): Promise<Outcome[]> {
  const rows = await runner.run(
    archive ? findOutcomesOrArchived : findOutcomes,
    soughtValues(sought),
  );
  return rows.map(([queueId, id, kind, state, awaited, told]) => ({
    queueId: Number(queueId),
    id: id!,
    kind: kind!,
    state: state as JobState,
    awaited: awaited!.startsWith("t"),
    told: told ?? null,
  }));
}
