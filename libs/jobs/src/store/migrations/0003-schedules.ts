import type { Migration } from "./migration.js";

/**
 * Schedules: who moves `next_at` on enqueues the job of the tick, in the same statement. So there is at most one for each
 * tick, whatever the number of processes, and no clock but the server's.
 *
 * Storage: a row is updated in place at each tick for as long as it lives, so half of each page is left. `due_at` is in
 * the index that every look asks for its least value; the rows are few.
 */
export const schedules: Migration = {
  version: 3,
  name: "schedules",
  sql: (jobs) => `
create table ${jobs}.schedule (
  name text collate "C" primary key check (length(name) between 1 and 64),
  queue_id integer not null,
  lane smallint not null,
  kind text collate "C" not null,
  cron text not null,
  time_zone text not null,
  overlap text collate "C" not null check (overlap in ('skip', 'queue')),
  misfire text collate "C" not null check (misfire in ('skip', 'one', 'all')),
  attempts smallint check (attempts > 0),
  timeout_ms bigint check (timeout_ms > 0),
  payload jsonb not null,
  -- the tick that is foreseen; null: none comes any more
  next_at timestamptz,
  -- the newest tick that was seen to, and the newest job
  last_at timestamptz,
  last_job bigint,
  paused_at timestamptz,
  paused_until timestamptz,
  paused_by text,
  paused_why text,
  -- whose code declares it, and when it last did; null: it was made at run time
  service text collate "C",
  declared_at timestamptz not null default now(),
  orphaned_at timestamptz,
  retired_at timestamptz,
  created_at timestamptz not null default now(),
  -- when somebody has to see to it
  due_at timestamptz generated always as (
    case
      when next_at is null or retired_at is not null then null
      when paused_at is null then next_at
      when paused_until is null then null
      else greatest(next_at, paused_until)
    end) stored
) with (fillfactor = 50);
create index schedule_due on ${jobs}.schedule (due_at) where due_at is not null;
`,
};
