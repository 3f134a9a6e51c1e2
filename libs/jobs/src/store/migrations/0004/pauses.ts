/**
 * What is not claimed for a while: a whole queue, which has '' for its kind, or one of its kinds.
 *
 * Storage: few rows. A pause that is set again changes its row in place, so half of each page is left for HOT.
 */
export const pauses = (jobs: string): string => `
create table ${jobs}.pause (
  queue_id integer not null,
  kind text collate "C" not null default '',
  paused_at timestamptz not null default now(),
  paused_until timestamptz,
  paused_by text,
  paused_why text,
  primary key (queue_id, kind)
) with (fillfactor = 50);
`;
