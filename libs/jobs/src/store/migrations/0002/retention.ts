/**
 * How long what is finished stays: partitions dropped by day, dead letters archived and pruned by age.
 *
 * Storage: `dead_archive` is inserted into and deleted from, as `dead` is: the defaults serve, for the same reasons. `daily`
 * has a row for each table with partitions.
 */
export const retention = (jobs: string): string => `
-- what workers said last; null = never
alter table ${jobs}.queue
  add column archive_dead interval check (archive_dead > '0'),
  add column prune_dead interval check (prune_dead > '0');
-- what this worker was told to keep: the longest of all holds
alter table ${jobs}.worker add column keep_finished interval;

-- dead letters that nobody looks at any more
create table ${jobs}.dead_archive (
  like ${jobs}.dead,
  archived_at timestamptz not null default now(),
  primary key (id, queue_id)
);
create index dead_archive_age on ${jobs}.dead_archive (queue_id, finished_at) where lane > -1;
create index dead_archive_worker on ${jobs}.dead_archive (worker) where lane > -1;

-- tables with a partition a day
create table ${jobs}.daily (parent text collate "C" primary key);
insert into ${jobs}.daily (parent) values ('done'), ('attempt_error'), ('event');

${ensurePartitions(jobs)}
select ${jobs}.ensure_partitions(7);

-- Drops a day that is over, attached or not; its counts go to what was pruned. Security definer: workers need no
-- DDL rights. Whoever settles waits behind our lock request, so it waits for no longer than that itself.
create function ${jobs}.drop_partition(part text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '100ms' as $$
declare
  its_parent text := substring(part from '^(.+)_[0-9]{8}$');
  its_day date;
begin
  if its_parent is null or not exists (select from ${jobs}.daily d where d.parent = its_parent) then
    raise exception 'expected the partition of a day, found "%"', part;
  end if;
  its_day := to_date(right(part, 8), 'YYYYMMDD');
  if its_day >= (now() at time zone 'UTC')::date then
    raise exception 'expected a day that is over, found "%"', part;
  end if;
  if to_regclass(format('${jobs}.%I', part)) is null then
    return false; -- another process was faster
  end if;
  if its_parent = 'done' then
    with gone as (
      delete from ${jobs}.stat s where s.day <= its_day and s.state between 1 and 3
      returning s.queue_id, s.lane, s.n
    )
    insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
      select queue_id, lane, 5, 'epoch', sum(n) from gone group by 1, 2;
  end if;
  -- Last: the lock on the parent is held for no longer than this takes.
  execute format('drop table if exists ${jobs}.%I', part);
  return true;
end $$;
-- it has the rights of the owner, and whoever may look at jobs may call functions
revoke execute on function ${jobs}.drop_partition(text) from public;

-- state 5 pruned, 6 archived
create function ${jobs}.count_done_out() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane, state, (finished_at at time zone 'UTC')::date, -count(*) from changed group by 1, 2, 3, 4;
  return null;
end $$;
create trigger count_done_out after delete on ${jobs}.done
  referencing old table as changed for each statement execute function ${jobs}.count_done_out();
create function ${jobs}.count_archive_in() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane, 6, 'epoch', count(*) from changed group by 1, 2;
  return null;
end $$;
create function ${jobs}.count_archive_out() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane, 6, 'epoch', -count(*) from changed group by 1, 2;
  return null;
end $$;
create trigger count_archive_in after insert on ${jobs}.dead_archive
  referencing new table as changed for each statement execute function ${jobs}.count_archive_in();
create trigger count_archive_out after delete on ${jobs}.dead_archive
  referencing old table as changed for each statement execute function ${jobs}.count_archive_out();

-- not before workers that were there before have said how long they keep what is finished
insert into ${jobs}.chore (name, every, due_at) values ('retention', '1 hour', now() + interval '1 hour');

-- archived letters are dead, and what was cancelled may have failed before
${jobStatus(jobs)}
`;

/** `first`: what it looks at before it makes any. */
export const ensurePartitions = (
  jobs: string,
  first = "",
): string => `create or replace function ${jobs}.ensure_partitions(days integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  parent text;
  first_day date := (now() at time zone 'UTC')::date;
  day date;
  part text;
  made integer := 0;
begin${first}
  for parent in select d.parent from ${jobs}.daily d order by 1 loop
    for day in select first_day + i from generate_series(0, days) i loop
      part := parent || '_' || to_char(day, 'YYYYMMDD');
      continue when exists (
        select from pg_inherits
        where inhparent = format('${jobs}.%I', parent)::regclass
          and inhrelid = to_regclass(format('${jobs}.%I', part)));
      begin
        execute format('create table if not exists ${jobs}.%I (like ${jobs}.%I including all)', part, parent);
        execute format('alter table ${jobs}.%I replica identity full', part);
        execute format('alter table ${jobs}.%I attach partition ${jobs}.%I for values from (%L) to (%L)',
          parent, part, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
      exception when duplicate_table or unique_violation or duplicate_object or invalid_object_definition or wrong_object_type then
        null; -- another process was faster
      end;
    end loop;
  end loop;
  return made;
end $$;`;

/** Of the last error that is kept of a row. */
export const lastMessage = (jobs: string, row: string): string =>
  `select e.error ->> 'message' from ${jobs}.attempt_error e
    where e.job_id = ${row}.id and e.queue_id = ${row}.queue_id order by e.attempt desc limit 1`;

/** `message`: a subquery for the message of a row's last error. */
export const jobStatus = (
  jobs: string,
  message = lastMessage,
): string => `create or replace view ${jobs}.job_status as
select j.queue_id || '-' || j.id as id, l.kind, q.name as queue,
  case when j.lease_until >= now() then 'running' else 'queued' end as state,
  l.priority::integer as priority, j.attempt, j.failures::integer as failures, j.attempts::integer as attempts,
  j.run_at, j.created_at, j.claimed_at as started_at, null::timestamptz as finished_at, j.key,
  (select w.host || ':' || w.pid from ${jobs}.worker w where w.id = j.worker) as worker,
  case when j.failures > 0 or j.crashes > 0 then (
    ${message(jobs, "j")}) end as last_error,
  j.payload, null::jsonb as result, j.queue_id, j.id as number
from ${jobs}.job j
join ${jobs}.queue q on q.id = j.queue_id
join ${jobs}.lane l on l.queue_id = j.queue_id and l.id = j.lane % 10000
union all
select d.queue_id || '-' || d.id, d.kind, q.name,
  case d.state when 1 then 'succeeded' when 2 then 'skipped' else 'cancelled' end,
  l.priority::integer, d.attempt, d.failures::integer, d.attempts::integer,
  d.run_at, d.created_at, d.started_at, d.finished_at, d.key,
  (select w.host || ':' || w.pid from ${jobs}.worker w where w.id = d.worker),
  case when d.state = 3 and d.failures > 0 then (
    ${message(jobs, "d")}) end,
  d.payload, d.result, d.queue_id, d.id
from ${jobs}.done d
join ${jobs}.queue q on q.id = d.queue_id
join ${jobs}.lane l on l.queue_id = d.queue_id and l.id = d.lane
${["dead", "dead_archive"]
  .map(
    (table) => `union all
select d.queue_id || '-' || d.id, d.kind, q.name, 'dead',
  l.priority::integer, d.attempt, d.failures::integer, d.attempts::integer,
  d.run_at, d.created_at, d.started_at, d.finished_at, d.key,
  (select w.host || ':' || w.pid from ${jobs}.worker w where w.id = d.worker),
  d.error ->> 'message', d.payload, null, d.queue_id, d.id
from ${jobs}.${table} d
join ${jobs}.queue q on q.id = d.queue_id
join ${jobs}.lane l on l.queue_id = d.queue_id and l.id = d.lane`,
  )
  .join("\n")};`;
