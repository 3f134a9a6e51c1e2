import { LOOK_UPS } from "../0007/lanes.js";

/**
 * How many worker processes a queue could use, for autoscalers. It has the rights of the owner, so that who asks needs none on
 * the tables; it stops at what no fleet needs more for, so that a backlog of millions costs what one of thousands does, in
 * however many kinds. What waits for its key, and what is run alone because its process died, ask for one that lives.
 */
export const desiredWorkers = (jobs: string): string => `
create or replace function ${jobs}.desired_workers(queue text, slots integer default null) returns integer
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
${LOOK_UPS} as $$
declare
  enough constant bigint := 10000;
  few constant bigint := 1000;
  of_queue integer;
  of_worker integer := desired_workers.slots;
  served text[];
  could_run bigint := 0;
  one_lives boolean := false;
  of_kind bigint;
  most integer;
  one record;
begin
  if desired_workers.queue is null then
    raise exception 'queue: expected a name, found null' using errcode = 'invalid_parameter_value';
  end if;
  if of_worker < 1 then
    raise exception 'slots: expected 1 or more, found %', of_worker
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for the slots of the workers that live.';
  end if;
  select q.id into of_queue from ${jobs}.queue q where q.name = desired_workers.queue;
  if not found then
    return 0; -- it has had no job yet
  end if;
  -- Nobody else takes them: more of the same workers change nothing. Where none lives, who knows what the next one serves.
  select max(w.slots) filter (where w.slots > 0), array_agg(distinct kind.name) into most, served
  from ${jobs}.worker w cross join lateral jsonb_array_elements_text(w.kinds -> desired_workers.queue) kind (name)
  where w.stopped_at is null and w.beat_at > now() - interval '1 minute' and w.kinds ? desired_workers.queue;
  of_worker := coalesce(of_worker, most, 10);
  for one in
    select l.kind, array_agg(l.id) as lanes,
      exists (select from ${jobs}.pause z where z.queue_id = of_queue and z.kind in ('', l.kind)
        and (z.paused_until is null or z.paused_until > now())) as paused,
      -- of a rate: as many as may start at once
      (select min(least(r.max, r.rate)) from ${jobs}.limit_rule r
        where r.queue_id = of_queue and r.kind = l.kind and r.key_path = '') as most
    from ${jobs}.lane l
    where l.queue_id = of_queue and (served is null or l.kind = any(served))
    group by l.kind
  loop
    exit when could_run >= enough;
    -- What runs stands in its lane too. Of what is paused only that counts, and it stands in front.
    select count(*) into of_kind from (
      select from unnest(one.lanes) lane (id) cross join lateral (
        select j.lease_until from ${jobs}.job j
        where j.queue_id = of_queue and j.lane = lane.id and j.lane > -1 and j.run_at <= now()
        order by j.run_at, j.id limit case when one.paused then few else enough end
      ) head
      where not one.paused or head.lease_until >= now()
      limit least(enough - could_run, one.most)
    ) counted;
    could_run := could_run + of_kind;
    one_lives := one_lives or (not one.paused and exists (
      select from unnest(one.lanes) lane (id) cross join unnest(array[10000, 20000]) aside (steps) cross join lateral (
        select from ${jobs}.job j
        where j.queue_id = of_queue and j.lane = (lane.id + aside.steps)::smallint and j.lane > -1 and j.run_at <= now()
        order by j.run_at, j.id limit 1
      ) waits));
  end loop;
  select min(least(r.max, r.rate)) into most from ${jobs}.limit_rule r
  where r.queue_id = of_queue and r.kind = '' and r.key_path = '';
  return greatest(ceil(least(could_run, most)::numeric / of_worker), one_lives::integer);
end $$;
`;
