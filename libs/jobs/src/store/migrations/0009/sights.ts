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
  -- an id is one of a queue
  if new.queue_id <> old.queue_id then
    new.recent_jobs := '{}';
  end if;
  if new.last_job is distinct from old.last_job and new.last_job is not null then
    new.recent_jobs := (new.last_job || new.recent_jobs)[1:5];
  end if;
  return new;
end $$;
create trigger note_recent_job before update of last_job, queue_id on ${jobs}.schedule
  for each row execute function ${jobs}.note_recent_job();
`;
