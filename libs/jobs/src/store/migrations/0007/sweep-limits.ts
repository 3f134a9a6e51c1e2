import { LOOK_UPS, toLanes } from "./lanes.js";

/**
 * The sweep of `0005/sweep-limits.ts`, which claims wait for less, and which passes over what somebody has locked. What nobody
 * else sees to: it opens a gate once all that runs has its slots; ends the slots of workers that died, whose
 * attempts can not be renewed from then on; lets go what is parked though its key has room (its process ended before it could,
 * a limit was raised, a pause is over, a job before it was cancelled). A batch of keys at a time, after the one named last;
 * `p_all` is for the function before it: this one looks at all keys.
 */
export const sweepLimits = (jobs: string): string => `
create or replace function ${jobs}.sweep_limits(p_queue integer, p_after smallint, p_after_key text, p_batch integer, p_all boolean, p_forget boolean)
returns table (opened boolean, moved bigint, last_limit smallint, last_key text)
language plpgsql volatile
${LOOK_UPS} as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_us bigint;
  v_open boolean;
  v_moved bigint;
  v_limit smallint;
  v_key text;
  k_limits smallint[];
  k_keys text[];
  k record;
  c record;
  v_left bigint;
  v_since bigint;
  v_at integer;
  i_lanes smallint[] := '{}';
  i_idle boolean[] := '{}';
  x_ids bigint[] := '{}';
  x_ats tid[] := '{}';
  g_ats tid[] := '{}';
begin
  -- Claims do not wait for it: a held snapshot may keep many dead rows of a line.
  with recursive known as (
    (select p.limit_id, p.key from ${jobs}.parked p
     where p.queue_id = p_queue and (p.limit_id, p.key) > (p_after, p_after_key)
     order by p.queue_id, p.limit_id, p.key limit 1)
    union all
    select n.limit_id, n.key
    from known k cross join lateral (
      select p.limit_id, p.key from ${jobs}.parked p
      where p.queue_id = p_queue and (p.limit_id, p.key) > (k.limit_id, k.key)
      order by p.queue_id, p.limit_id, p.key limit 1
    ) n
  )
  select coalesce(array_agg(k.limit_id), '{}'), coalesce(array_agg(k.key), '{}') into k_limits, k_keys
  from (select limit_id, key from known limit p_batch) k;
  -- nor while it goes through dead slots: those that come now have higher numbers
  select coalesce(min(s.seq), (select o.last_value from ${jobs}.slot_order o)) into v_since
  from ${jobs}.slot s where s.queue_id = p_queue;
  perform pg_advisory_xact_lock(${jobs}.lock_limits(p_queue));
  v_now := clock_timestamp();
  v_us := floor(extract(epoch from v_now) * 1000000)::bigint;

  update ${jobs}.limit_gate g set opens_at = v_now + interval '5 seconds'
  where g.queue_id = p_queue and not g.opened and g.opens_at is null;
  select g.opened into v_open from ${jobs}.limit_gate g
  where g.queue_id = p_queue and (g.opened or g.opens_at <= v_now
    -- nobody can have a claim under way that does not know of the limit
    or not exists (select from ${jobs}.job j where j.queue_id = p_queue and j.lane > -1)
    or not exists (
      select from ${jobs}.worker w join ${jobs}.queue q on q.id = p_queue
      where w.stopped_at is null and w.beat_at > v_now - interval '1 minute' and w.kinds ? q.name));
  if v_open = false then
    delete from ${jobs}.slot s where s.queue_id = p_queue;
    insert into ${jobs}.slot (queue_id, limit_id, key, job_id, attempt, worker)
    select p_queue, r.id, k.key, j.id, j.attempt, j.worker
    from ${jobs}.job j
    join ${jobs}.limit_rules(p_queue) r on r.kind in ('', j.kind)
    cross join lateral (
      select case when r.key_path = '' then '' else left(nullif(j.payload #>> r.path, ''), 512) end as key
    ) k
    where j.queue_id = p_queue and j.lane > -1 and j.run_at <= v_now and j.lease_until is not null and j.worker > 0
      and k.key is not null;
    update ${jobs}.limit_gate g set opened = true where g.queue_id = p_queue;
  end if;

  -- the sign makes the id nobody's: whoever froze for longer than the lease can neither renew nor settle
  update ${jobs}.job j set worker = -j.worker where j.ctid = any(array(
    select d.at from ${jobs}.slot s cross join lateral (
      select d.ctid as at from ${jobs}.job d
      where d.id = s.job_id and d.queue_id = p_queue and d.lease_until < v_now and d.worker > 0 offset 0 for update skip locked
    ) d
    where s.queue_id = p_queue and s.seq >= v_since));
  delete from ${jobs}.slot s
  where s.queue_id = p_queue and s.seq >= v_since and not exists (
    select from ${jobs}.job j
    where j.id = s.job_id and j.queue_id = p_queue and j.attempt = s.attempt and j.worker = s.worker and j.lease_until is not null
    offset 0);

  for k in
    with live as materialized (
      select s.limit_id, s.key, count(*) as n from ${jobs}.slot s
      where s.queue_id = p_queue and s.seq >= v_since group by s.limit_id, s.key
    ), room as materialized (
      select k.limit_id, k.key, coalesce(r.kind, '') as kind, case when r.id is null then 2147483647 when r.max <= l.n then 0
        else ${jobs}.limit_left(p_queue, r.id, k.key, r.max, l.n, r.burst, r.cost, v_now, true) end as n
      from unnest(k_limits, k_keys) k (limit_id, key)
      left join live l on l.limit_id = k.limit_id and l.key = k.key
      left join ${jobs}.limit_rules(p_queue) r on r.id = k.limit_id
    )
    select limit_id, key, n, kind from room where n > 0 and not exists (
      select from ${jobs}.pause z
      where z.queue_id = p_queue and z.kind = '' and (z.paused_until is null or z.paused_until > v_now))
  loop
    v_left := k.n;
    for c in
      select p.job_id, p.ctid as at, j.lane, j.run_at
      from ${jobs}.parked p left join lateral (
        select j.lane, j.run_at from ${jobs}.job j where j.id = p.job_id and j.queue_id = p_queue offset 0
      ) j on true
      where p.queue_id = p_queue and p.limit_id = k.limit_id and p.key = k.key
      order by p.priority desc, p.run_at, p.job_id
    loop
      exit when cardinality(x_ids) + cardinality(g_ats) >= 2000;
      if c.lane is null or c.lane not between 10000 and 19999 then
        -- cancelled, deleted, or replaced while it was parked
        g_ats := g_ats || c.at;
        continue;
      end if;
      v_at := array_position(i_lanes, c.lane);
      if v_at is null then
        i_lanes := i_lanes || c.lane;
        i_idle := i_idle || ${jobs}.lane_idles(p_queue, (c.lane - 10000)::smallint, v_now);
        v_at := cardinality(i_lanes);
      end if;
      -- of a line of one kind nobody can start then
      exit when k.kind <> '' and i_idle[v_at];
      -- who could not start anyway keeps no room
      if c.run_at <= v_now and not i_idle[v_at] then
        exit when v_left = 0;
        perform from ${jobs}.job j where j.id = c.job_id and j.queue_id = p_queue for update skip locked;
        continue when not found;
        v_left := v_left - 1;
      end if;
      x_ids := x_ids || c.job_id;
      x_ats := x_ats || c.at;
    end loop;
  end loop;
  with ${toLanes(jobs)}, gone as (
    delete from ${jobs}.parked p where p.ctid = any(g_ats || array(
      select x.at from unnest(x_ids, x_ats) x (id, at) where x.id = any(array(select m.id from moved m))))
  )
  select (select count(*) from moved) + cardinality(g_ats) into v_moved;
  if cardinality(k_limits) >= p_batch then
    v_limit := k_limits[cardinality(k_limits)];
    v_key := k_keys[cardinality(k_keys)];
  end if;

  -- of a queue that has no limit any more nothing stays
  if not exists (select from ${jobs}.limit_rule r where r.queue_id = p_queue)
    and not exists (select from ${jobs}.parked p where p.queue_id = p_queue)
  then
    delete from ${jobs}.limit_gate g where g.queue_id = p_queue;
    delete from ${jobs}.slot s where s.queue_id = p_queue;
  end if;
  if p_forget then
    -- a rate that is whole again is none
    delete from ${jobs}.bucket b
    where b.queue_id = p_queue and b.key <> '' and b.wake_at is null and b.full_at < v_us;
  end if;
  return query select coalesce(not v_open, false), v_moved, v_limit, v_key;
end $$;
`;
