/**
 * What happened to a job. Rows are written for what leaves no trace elsewhere, or, where a queue says so, for
 * everything; the view `job_event` derives the rest. `docs/history.md` tells which mode writes what.
 *
 * Storage: `event` is only inserted into, by day, as `done` is: the defaults serve, for the same reasons.
 */
export const history = (jobs: string): string => `
alter table ${jobs}.queue add column history text collate "C" not null default 'exceptions'
  check (history in ('none', 'exceptions', 'full'));
-- nearly always empty: whether any queue wants everything written costs one look at it
create index queue_full on ${jobs}.queue (id) where history = 'full';

-- keys of details: reason, error, delayMs; of 'rescued' the worker that went silent; of 'requeued' how it had ended
create table ${jobs}.event (
  job_id bigint not null,
  at timestamptz not null default now(),
  started_at timestamptz,
  attempt integer not null,
  worker integer,
  queue_id integer not null,
  generation smallint not null,
  event text collate "C" not null,
  details jsonb
) partition by range (at);
create index event_job on ${jobs}.event (job_id);

-- Jobs are enqueued by many statements, of this release, of older ones and of people: the table's own trigger writes
-- it, inside the statement that inserts them. Without a day for it, for no worker has made one for a week, nothing is
-- written: no job is refused for its history, and the view knows when it was enqueued.
create or replace function ${jobs}.count_in() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane % 10000, 0, 'epoch', count(*) from changed group by 1, 2;
  if exists (select from ${jobs}.queue where history = 'full')
    and to_regclass('${jobs}.event_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')) is not null then
    insert into ${jobs}.event (job_id, attempt, queue_id, generation, event)
      select c.id, c.attempt, c.queue_id, c.generation, 'enqueued'
      from changed c join ${jobs}.queue q on q.id = c.queue_id
      where q.history = 'full' and c.generation = 1;
  end if;
  return null;
end $$;
`;

/**
 * The story of each job: what was written and what follows from the tables, each event once. An event is told apart
 * from all others of its job by generation, attempt and name; that is its order too, whatever clocks did.
 */
export const jobEvent = (jobs: string): string => {
  // A job that fails after its cancel was requested is cancelled in the statement that writes the error.
  const failedAt = (job: string, queue: string, time: string) =>
    `(select jsonb_build_object('error', f.error) from ${jobs}.attempt_error f
        where f.job_id = ${job} and f.queue_id = ${queue} and f.failed_at = ${time} limit 1)`;
  return `
create view ${jobs}.job_event as
select one.queue_id || '-' || one.number as id, one.event, one.at, one.attempt, one.generation::integer as generation,
  (select w.host || ':' || w.pid from ${jobs}.worker w where w.id = one.worker) as worker,
  one.details, one.queue_id, one.number
from (
  select distinct on (queue_id, number, generation, attempt, event) queue_id, number, generation, attempt, event, at, worker, details
  from (
    select e.queue_id, e.job_id as number, e.generation, e.attempt, e.event, e.at, e.worker,
      case e.event when 'requeued' then null when 'rescued' then null else e.details end as details, 0 as source
    from ${jobs}.event e

    union all select j.queue_id, j.id, 1::smallint, 0, 'enqueued', j.created_at, null, null, 1 from ${jobs}.job j
    union all select d.queue_id, d.id, 1::smallint, 0, 'enqueued', d.created_at, null, null, 1 from ${jobs}.done d
    union all select d.queue_id, d.id, 1::smallint, 0, 'enqueued', d.created_at, null, null, 1 from ${jobs}.dead d
    union all select d.queue_id, d.id, 1::smallint, 0, 'enqueued', d.created_at, null, null, 1 from ${jobs}.dead_archive d

    union all select j.queue_id, j.id, j.generation, j.attempt, 'started', j.claimed_at, j.worker, null, 1
    from ${jobs}.job j where j.worker is not null
    union all select d.queue_id, d.id, d.generation, d.attempt, 'started', d.started_at, d.worker, null, 1
    from ${jobs}.done d where d.started_at is not null
    union all select d.queue_id, d.id, d.generation, d.attempt, 'started', d.started_at, d.worker, null, 1
    from ${jobs}.dead d where d.started_at is not null
    union all select d.queue_id, d.id, d.generation, d.attempt, 'started', d.started_at, d.worker, null, 1
    from ${jobs}.dead_archive d where d.started_at is not null
    union all select e.queue_id, e.job_id, e.generation, e.attempt, 'started', e.started_at, e.worker, null, 1
    from ${jobs}.attempt_error e where e.started_at is not null
    union all select e.queue_id, e.job_id,
      case e.event when 'requeued' then e.generation - 1 else e.generation end::smallint,
      case e.event when 'rescued' then e.attempt - 1 else e.attempt end,
      'started', e.started_at,
      case e.event when 'rescued' then (e.details ->> 'worker')::integer else e.worker end, null, 2
    from ${jobs}.event e where e.started_at is not null

    union all select e.queue_id, e.job_id, e.generation, e.attempt, 'retried', e.failed_at, e.worker,
      jsonb_build_object('error', e.error), 1
    from ${jobs}.attempt_error e
    -- the error that ended the job, or its generation, was followed by no other run
    where not exists (select from ${jobs}.dead d where d.id = e.job_id and d.queue_id = e.queue_id and d.attempt = e.attempt)
      and not exists (select from ${jobs}.dead_archive d where d.id = e.job_id and d.queue_id = e.queue_id and d.attempt = e.attempt)
      and not exists (select from ${jobs}.done d where d.id = e.job_id and d.queue_id = e.queue_id and d.finished_at = e.failed_at)
      and not exists (select from ${jobs}.event r where r.job_id = e.job_id and r.queue_id = e.queue_id and r.event = 'requeued'
        and (r.details ->> 'finishedAt')::timestamptz = e.failed_at)

    union all select d.queue_id, d.id, d.generation, d.attempt,
      case d.state when 1 then 'succeeded' when 2 then 'skipped' else 'cancelled' end, d.finished_at, d.worker,
      case d.state when 2 then jsonb_build_object('reason', d.result ->> 'reason')
        when 3 then ${failedAt("d.id", "d.queue_id", "d.finished_at")} end, 1
    from ${jobs}.done d
    union all select d.queue_id, d.id, d.generation, d.attempt, 'died', d.finished_at, d.worker,
      jsonb_build_object('reason', d.reason, 'error', d.error), 1
    from ${jobs}.dead d
    union all select d.queue_id, d.id, d.generation, d.attempt, 'died', d.finished_at, d.worker,
      jsonb_build_object('reason', d.reason, 'error', d.error), 1
    from ${jobs}.dead_archive d
    union all select e.queue_id, e.job_id, (e.generation - 1)::smallint, e.attempt, e.details ->> 'ended',
      (e.details ->> 'finishedAt')::timestamptz, e.worker,
      case e.details ->> 'ended'
        when 'cancelled' then ${failedAt("e.job_id", "e.queue_id", "(e.details ->> 'finishedAt')::timestamptz")}
        else e.details - 'ended' - 'finishedAt' end, 1
    from ${jobs}.event e where e.event = 'requeued'

    -- a letter keeps its errors longer than attempt_error does
    union all select d.queue_id, d.id, coalesce((x ->> 'generation')::smallint, d.generation), (x ->> 'attempt')::integer,
      told.event, (case told.event when 'started' then x ->> 'startedAt' else x ->> 'failedAt' end)::timestamptz, null,
      case told.event when 'started' then null else jsonb_build_object('error', x -> 'error') end, 3
    from (select queue_id, id, generation, attempt, errors from ${jobs}.dead
          union all select queue_id, id, generation, attempt, errors from ${jobs}.dead_archive) d
    cross join lateral jsonb_array_elements(d.errors) x
    cross join (values ('started'), ('retried'), ('died'), ('cancelled')) told (event)
    where (x ? 'generation' or d.generation = 1)
      and case told.event when 'started' then x ->> 'startedAt' is not null
        when 'retried' then not x ? 'ended' and (x ->> 'attempt')::integer <> d.attempt
        else x ->> 'ended' = told.event end
  ) any_source
  order by queue_id, number, generation, attempt, event, source
) one;
`;
};
