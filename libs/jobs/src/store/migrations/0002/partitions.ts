/**
 * The tables that are partitioned by day, in one place: `ensure_partitions` makes their partitions ahead, retention
 * drops the old ones. A part that brings such a table ends with `select ensure_partitions(7)`.
 */
export const partitions = (jobs: string) => `
create function ${jobs}.partitioned() returns text[] language sql stable set search_path = pg_catalog, pg_temp as $$
  select array_agg(listed.name order by listed.place)
  from unnest(array['done', 'attempt_error', 'job_log', 'event']) with ordinality listed (name, place)
  join pg_class c on c.oid = to_regclass('${jobs}.' || listed.name) and c.relkind = 'p'
$$;

-- as in the spine, over that list
create or replace function ${jobs}.ensure_partitions(days integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  parent text;
  first_day date := (now() at time zone 'UTC')::date;
  day date;
  part text;
  made integer := 0;
begin
  foreach parent in array ${jobs}.partitioned() loop
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
`;
