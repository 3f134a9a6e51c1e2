/**
 * What people look for of workers and schedules: what a process said of itself at its last beat, and the last jobs of a
 * schedule, in their order.
 *
 * Storage: both are written with what is written anyway, a beat or a tick; neither is in an index, so it stays HOT.
 */
export const sights = (jobs: string): string => `
alter table ${jobs}.worker add column vitals jsonb;

alter table ${jobs}.schedule add column recent_jobs bigint[] not null default '{}';
update ${jobs}.schedule set recent_jobs = array[last_job] where last_job is not null;

-- for whatever release moves it on
create function ${jobs}.note_recent_job() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  new.recent_jobs := (new.last_job || old.recent_jobs)[1:5];
  return new;
end $$;
create trigger note_recent_job before update of last_job on ${jobs}.schedule
  for each row when (new.last_job is distinct from old.last_job and new.last_job is not null)
  execute function ${jobs}.note_recent_job();
`;
