import { LOOK_UPS } from "../0007/lanes.js";

/**
 * How many worker processes a queue could use, for autoscalers. It has the rights of the owner, so that who asks needs none on
 * the tables; each lane is walked up to a bound, so that a backlog of millions costs what one of thousands does. What waits
 * for its key lies in other lanes, and asks for nobody.
 */
export const desiredWorkers = (jobs: string): string => `
create function ${jobs}.desired_workers(queue text, slots integer default null) returns integer
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
${LOOK_UPS} as $$
declare
  of_queue integer;
  of_worker integer := desired_workers.slots;
  could_run bigint := 0;
  ofkind bigint;
  most integer;
  one record;
begin
  if of_worker < 1 then
    raise exception 'slots: expected 1 or more, found %', of_worker
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for the slots of the workers that live.';
  end if;
  select q.id into of_queue from ${jobs}.queue q where q.name = desired_workers.queue;
  if not found then
    return 0; -- it has had no job yet
  end if;
  if of_worker is null then
    select max(w.slots) into of_worker from ${jobs}.worker w
    where w.stopped_at is null and w.beat_at > now() - interval '1 minute' and w.kinds ? desired_workers.queue and w.slots > 0;
  end if;
  for one in
    select l.kind, array_agg(l.id) as lanes,
      exists (select from ${jobs}.pause z where z.queue_id = of_queue and z.kind in ('', l.kind)
        and (z.paused_until is null or z.paused_until > now())) as paused,
      (select min(r.max) from ${jobs}.limit_rule r where r.queue_id = of_queue and r.kind = l.kind and r.key_path = '') as most
    from ${jobs}.lane l where l.queue_id = of_queue group by l.kind
  loop
    -- what runs stands in its lane too
    select count(*) into ofkind
    from unnest(one.lanes) lane (id) cross join lateral (
      select j.lease_until from ${jobs}.job j
      where j.queue_id = of_queue and j.lane = lane.id and j.lane > -1 and j.run_at <= now()
      order by j.run_at, j.id limit 10001
    ) head
    where not one.paused or head.lease_until >= now();
    could_run := could_run + least(ofkind, one.most);
  end loop;
  select min(r.max) into most from ${jobs}.limit_rule r where r.queue_id = of_queue and r.kind = '' and r.key_path = '';
  return ceil(least(could_run, most)::numeric / coalesce(of_worker, 10));
end $$;
`;
