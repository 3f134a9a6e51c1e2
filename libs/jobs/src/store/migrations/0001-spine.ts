import type { Migration } from "./migration.js";

/**
 * Every table carries `queue_id` and its keys contain it: each hot statement names one queue, and the
 * same schema can be spread by queue later. `docs/adr/0001-one-live-table.md` tells why it is so.
 *
 * Storage: rows of `worker`, `stat` and `chore` are updated in place for as long as they live, so half of each page is
 * left for HOT. `job`, which changes all the time, is analysed the more seldom: plans of the hot statements are forced
 * and do not hang on its statistics. The others have the defaults:
 * - `queue`, `lane`: few rows, which hardly ever change.
 * - `done`, `attempt_error`: only inserted into, so that full pages are right. A partitioned table takes no settings, and
 *   `like` copies none: each day would have to be given its own. Inserts have a day vacuumed whenever it has grown by a
 *   fifth; that visits new pages only (2M rows, 434 MB: 0.7 s and 3 bytes of WAL a row; the next 400k rows: 0.08 s),
 *   and its rows are dropped with it, mostly before they would have to be frozen.
 * - `dead`: inserted, and deleted by requeue, archive and prune; never updated, and looked up by key. A fifth of it may be
 *   dead before it is vacuumed: that is room on the disk, and what goes by age or lists meets each of them once, since
 *   the index remembers.
 * - `stat_delta`: inserted and deleted, never updated. It is emptied every two seconds, by its end when it is long
 *   (`upkeep/deltas.ts`); the defaults have it vacuumed in every minute in which jobs ran, 750 pages at 1,000 jobs/s. It is
 *   truncated then, unlike `job`: after a pinned horizon of an hour (7M dead deltas) one insert waited for that 45-70 ms,
 *   else 3-5 ms, and 350 MB were given back.
 */
export const spine: Migration = {
  version: 1,
  name: "spine",
  sql: (jobs) => `
create table ${jobs}.queue (
  id integer generated always as identity primary key,
  name text collate "C" not null unique check (length(name) between 1 and 64),
  -- claims carry the version they were built for; pause, limits and new lanes raise it
  version integer not null default 1,
  created_at timestamptz not null default now()
);

-- a small number for (queue, kind, priority): claims scan it by equality, never past rows of others
create table ${jobs}.lane (
  queue_id integer not null,
  id smallint not null check (id between 0 and 9999),
  kind text collate "C" not null check (length(kind) between 1 and 64),
  priority smallint not null check (priority between -100 and 100),
  primary key (queue_id, id),
  unique (queue_id, kind, priority)
);

-- clients take blocks of 1024 ids; never multiply, node numbers may sit in the top bits
create sequence ${jobs}.job_id increment by 1024;

-- everything that is not finished. What a claim writes stands side by side and is in no index, so that
-- claims and renewals are HOT; more than half of each page is left free for them.
create table ${jobs}.job (
  id bigint not null,
  run_at timestamptz not null,
  created_at timestamptz not null default now(),
  lease_until timestamptz,
  claimed_at timestamptz,
  worker integer,
  attempt integer not null default 0,
  crashes smallint not null default 0,
  failures smallint not null default 0,
  lane smallint not null,
  queue_id integer not null,
  generation smallint not null default 1,
  attempts smallint check (attempts > 0),
  timeout_ms bigint check (timeout_ms > 0),
  cancel_at timestamptz,
  awaited boolean,
  kind text collate "C" not null,
  key text collate "C",
  limit_key text collate "C",
  headers jsonb,
  payload jsonb not null,
  primary key (id, queue_id)
) with (
  fillfactor = 45, -- room on the page for the claim's new row version, which is a little longer
  vacuum_truncate = off, -- truncation takes an exclusive lock
  autovacuum_vacuum_cost_delay = 0, -- rows die as fast as jobs run: vacuum must keep up
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, -- by jobs run, not by backlog
  autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 50000
);
-- the predicate is always true: it keeps every other statement off this index
create index job_claim on ${jobs}.job (queue_id, lane, run_at, id) where lane > -1;
create unique index job_key on ${jobs}.job (queue_id, kind, key) where key is not null;
alter table ${jobs}.job replica identity using index job_pkey;

-- succeeded, skipped, cancelled; no default partition, it would forbid detach concurrently
create table ${jobs}.done (
  id bigint not null,
  finished_at timestamptz not null default now(),
  created_at timestamptz not null,
  run_at timestamptz not null,
  started_at timestamptz,
  worker integer,
  attempt integer not null,
  queue_id integer not null,
  failures smallint not null,
  lane smallint not null,
  generation smallint not null,
  attempts smallint,
  state smallint not null check (state between 1 and 3),
  timeout_ms bigint,
  kind text collate "C" not null,
  key text collate "C",
  limit_key text collate "C",
  headers jsonb,
  payload jsonb,
  result jsonb
) partition by range (finished_at);
create index done_id on ${jobs}.done (id);

-- needs a person
create table ${jobs}.dead (
  id bigint not null,
  finished_at timestamptz not null default now(),
  created_at timestamptz not null,
  run_at timestamptz not null,
  started_at timestamptz,
  worker integer,
  attempt integer not null,
  queue_id integer not null,
  failures smallint not null,
  crashes smallint not null,
  lane smallint not null,
  generation smallint not null,
  attempts smallint,
  timeout_ms bigint,
  kind text collate "C" not null,
  key text collate "C",
  limit_key text collate "C",
  headers jsonb,
  payload jsonb not null,
  reason text not null,
  error jsonb,
  errors jsonb not null default '[]',
  primary key (id, queue_id)
);
create index dead_finished on ${jobs}.dead (queue_id, finished_at);

-- one row per failed attempt
create table ${jobs}.attempt_error (
  job_id bigint not null,
  failed_at timestamptz not null default now(),
  started_at timestamptz,
  attempt integer not null,
  worker integer,
  queue_id integer not null,
  generation smallint not null,
  error jsonb not null
) partition by range (failed_at);
create index attempt_error_job on ${jobs}.attempt_error (job_id);

-- one row per connection that claims; ids come from a synchronous insert and are never reused
create table ${jobs}.worker (
  id integer generated always as identity primary key,
  host text not null,
  pid integer not null,
  started_at timestamptz not null default now(),
  beat_at timestamptz not null default now(),
  stopped_at timestamptz,
  kinds jsonb not null default '{}',
  slots integer not null default 0,
  running integer not null default 0,
  lost bigint not null default 0
) with (fillfactor = 50);

-- append-only deltas, rolled up: never a shared counter inside somebody's transaction.
-- state 0 unfinished, 1 succeeded, 2 skipped, 3 cancelled, 4 dead
create table ${jobs}.stat_delta (
  queue_id integer not null,
  lane smallint not null,
  state smallint not null,
  day date not null,
  n bigint not null
);
alter table ${jobs}.stat_delta replica identity full;
create table ${jobs}.stat (
  queue_id integer not null,
  lane smallint not null,
  state smallint not null,
  day date not null,
  n bigint not null,
  primary key (queue_id, lane, state, day)
) with (fillfactor = 50);

-- background duties: who moves due_at runs it
create table ${jobs}.chore (
  name text collate "C" primary key,
  every interval not null,
  due_at timestamptz not null default now()
) with (fillfactor = 50);
insert into ${jobs}.chore (name, every) values ('rollup', '2 seconds'), ('partitions', '1 hour');

create function ${jobs}.count_in() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane % 10000, 0, 'epoch', count(*) from changed group by 1, 2;
  return null;
end $$;
create function ${jobs}.count_out() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane % 10000, 0, 'epoch', -count(*) from changed group by 1, 2;
  return null;
end $$;
create function ${jobs}.count_done() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane, state, (finished_at at time zone 'UTC')::date, count(*) from changed group by 1, 2, 3, 4;
  return null;
end $$;
create function ${jobs}.count_dead_in() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane, 4, 'epoch', count(*) from changed group by 1, 2;
  return null;
end $$;
create function ${jobs}.count_dead_out() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane, 4, 'epoch', -count(*) from changed group by 1, 2;
  return null;
end $$;
create trigger count_in after insert on ${jobs}.job
  referencing new table as changed for each statement execute function ${jobs}.count_in();
create trigger count_out after delete on ${jobs}.job
  referencing old table as changed for each statement execute function ${jobs}.count_out();
create trigger count_done after insert on ${jobs}.done
  referencing new table as changed for each statement execute function ${jobs}.count_done();
create trigger count_dead_in after insert on ${jobs}.dead
  referencing new table as changed for each statement execute function ${jobs}.count_dead_in();
create trigger count_dead_out after delete on ${jobs}.dead
  referencing old table as changed for each statement execute function ${jobs}.count_dead_out();

-- daily partitions for today and the days to come. Security definer: workers need no DDL rights.
-- "partition of" would take ACCESS EXCLUSIVE on the parent; create and attach does not.
create function ${jobs}.ensure_partitions(days integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  parent text;
  first_day date := (now() at time zone 'UTC')::date;
  day date;
  part text;
  made integer := 0;
begin
  foreach parent in array array['done', 'attempt_error'] loop
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
end $$;
select ${jobs}.ensure_partitions(7);

-- stable columns for people with psql and for tests that see only the outside
create view ${jobs}.job_status as
select j.queue_id || '-' || j.id as id, l.kind, q.name as queue,
  case when j.lease_until >= now() then 'running' else 'queued' end as state,
  l.priority::integer as priority, j.attempt, j.failures::integer as failures, j.attempts::integer as attempts,
  j.run_at, j.created_at, j.claimed_at as started_at, null::timestamptz as finished_at, j.key,
  (select w.host || ':' || w.pid from ${jobs}.worker w where w.id = j.worker) as worker,
  case when j.failures > 0 or j.crashes > 0 then (
    select e.error ->> 'message' from ${jobs}.attempt_error e
    where e.job_id = j.id and e.queue_id = j.queue_id order by e.attempt desc limit 1) end as last_error,
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
  null, d.payload, d.result, d.queue_id, d.id
from ${jobs}.done d
join ${jobs}.queue q on q.id = d.queue_id
join ${jobs}.lane l on l.queue_id = d.queue_id and l.id = d.lane
union all
select d.queue_id || '-' || d.id, d.kind, q.name, 'dead',
  l.priority::integer, d.attempt, d.failures::integer, d.attempts::integer,
  d.run_at, d.created_at, d.started_at, d.finished_at, d.key,
  (select w.host || ':' || w.pid from ${jobs}.worker w where w.id = d.worker),
  d.error ->> 'message', d.payload, null, d.queue_id, d.id
from ${jobs}.dead d
join ${jobs}.queue q on q.id = d.queue_id
join ${jobs}.lane l on l.queue_id = d.queue_id and l.id = d.lane;
`,
};
