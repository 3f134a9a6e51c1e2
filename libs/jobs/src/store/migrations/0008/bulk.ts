/**
 * What is done to many jobs at once: a row for each order, which says how far it has come. Few rows, which are changed in place
 * for as long as it takes, so half of each page is left.
 */
export const bulk = (jobs: string): string => `
create table ${jobs}.bulk (
  id bigint generated always as identity primary key,
  action text collate "C" not null check (action in ('requeue', 'cancel', 'delete')),
  filter jsonb not null,
  -- so many at most are changed
  expected bigint not null check (expected > 0),
  operator text not null,
  why text,
  created_at timestamptz not null default now(),
  state text collate "C" not null default 'running' check (state in ('running', 'done', 'stopped', 'failed')),
  -- from the newest to the oldest: jobs below are still to be looked at; null: none was
  below bigint,
  changed bigint not null default 0,
  -- how many were not, by why
  refused jsonb not null default '{}',
  problem text,
  -- which process is at it, and until when nobody else is
  runner text,
  lease_until timestamptz,
  finished_at timestamptz
) with (fillfactor = 50);
create index bulk_running on ${jobs}.bulk (id) where state = 'running';
`;
