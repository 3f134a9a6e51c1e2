/**
 * The claim of a queue that has limits. One claim at a time: who does not get the lock comes again in a moment. The statement
 * that counts begins after the lock, so it sees whatever was claimed before; all that it writes is committed before the lock
 * is free. Jobs are judged one after another: who is set aside has its key full before it, by jobs that run or start now.
 *
 * A slot ends when its job is over: the process that had it says which jobs may be, the row of the job decides.
 *
 * A rate of N in a window w: N/10 at once, then one each w / (N + 1 - N/10), so that no window of w has more than N. The
 * server's clock gives them out and a job starts a moment later, so w is taken a little longer: a tenth, at most 0.25 s.
 */
export const claimLimited = (jobs: string): string => `
create function ${jobs}.lock_limits(of_queue integer) returns bigint language sql stable as
$$ select ('${jobs}.slot'::regclass::oid::bigint << 32) + of_queue $$;

-- the rules of a queue, with what reckoning needs of them
create function ${jobs}.limit_rules(of_queue integer)
returns table (id smallint, kind text, key_path text, path text[], max integer, rate integer, burst bigint, cost bigint)
language sql stable rows 4 as $$
  select r.id, r.kind, r.key_path, string_to_array(nullif(r.key_path, ''), '.'), r.max, r.rate, b.burst,
    ceil((r.rate_ms * 1000.0 + least(r.rate_ms * 100, 250000)) / (r.rate + 1 - b.burst))::bigint
  from ${jobs}.limit_rule r cross join lateral (select greatest(1, r.rate / 10)::bigint as burst) b
  where r.queue_id = of_queue
$$;

-- how many more a rule lets start now: of its slots, of its rate; null is any number
create function ${jobs}.limit_left(
  most integer, used bigint, rate integer, burst bigint, cost bigint, full_at bigint, now_us bigint)
returns bigint language sql immutable as $$
  select greatest(0, least(most - coalesce(used, 0),
    case when rate is not null then (burst * cost - greatest(coalesce(full_at, 0) - now_us, 0)) / cost end))
$$;

create function ${jobs}.claim_limited(
  p_queue integer, p_version integer, p_lanes smallint[], p_ats timestamptz[], p_ids bigint[], p_backs float8[],
  p_rooms integer[], p_untils float8[], p_room integer, p_lease_ms float8, p_worker integer, p_take_over_until timestamptz,
  p_tells boolean, p_over bigint[], p_depth integer, p_since bigint)
returns table (id bigint, lane smallint, attempt integer, failures smallint, crashes smallint, attempts smallint,
  timeout_ms bigint, run_at timestamptz, payload jsonb, headers jsonb, kind text, rescued boolean, picked boolean, news jsonb)
language plpgsql volatile
-- each look-up by its key, whatever the statistics: a join planned for others has walked the whole backlog
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_us bigint;
  v_last bigint;
  v_first bigint;
  v_room integer;
  v_rooms integer[] := p_rooms;
  v_blocked boolean;
  v_rates boolean;
  v_pauses boolean;
  v_news jsonb;
  -- keys whose parked jobs may start
  v_free_limits smallint[] := '{}';
  v_free_keys text[] := '{}';
  v_due_limits smallint[];
  v_due_keys text[];
  -- candidates in order; which line of the lanes each is of
  c_ids bigint[];
  c_lines integer[];
  c_picked boolean[];
  c_expired boolean[];
  c_xmins xid[];
  v_waiting bigint[];
  -- each candidate with each part of a limit that it needs, in the same order
  n_at integer[];
  n_part integer[];
  v_need integer := 1;
  v_next integer;
  -- the parts: a rule, and a key of it
  l_limit smallint[];
  l_key text[];
  l_left bigint[];
  v_full integer;
  v_starts boolean;
  -- what is decided: who starts, with the slots it needs; who is set aside, for which key
  t_ids bigint[] := '{}';
  s_ids bigint[] := '{}';
  s_limits smallint[] := '{}';
  s_keys text[] := '{}';
  k_ids bigint[] := '{}';
  k_limits smallint[] := '{}';
  k_keys text[] := '{}';
  k_picked boolean[] := '{}';
begin
  if not pg_try_advisory_xact_lock(${jobs}.lock_limits(p_queue)) then
    v_news := '{"busy": true}';
  elsif not exists (
    select from ${jobs}.queue q join ${jobs}.limit_gate g on g.queue_id = q.id
    where q.id = p_queue and q.version = p_version and g.opened)
  then
    v_news := '{"closed": true}';
  end if;
  if v_news is not null then
    return query select null::bigint, null::smallint, null::integer, null::smallint, null::smallint, null::smallint, null::bigint,
      null::timestamptz, null::jsonb, null::jsonb, null::text, null::boolean, null::boolean, v_news;
    return;
  end if;
  v_now := clock_timestamp();
  v_us := floor(extract(epoch from v_now) * 1000000)::bigint;

  if cardinality(p_over) > 0 then
    with gone as (
      delete from ${jobs}.slot s
      where s.queue_id = p_queue and s.job_id = any(p_over)
        and not exists (
          select from ${jobs}.job j
          where j.id = s.job_id and j.queue_id = p_queue and j.attempt = s.attempt and j.worker = s.worker
            and j.lease_until is not null offset 0)
      returning s.limit_id, s.key
    )
    select coalesce(array_agg(g.limit_id), '{}'), coalesce(array_agg(g.key), '{}') into v_free_limits, v_free_keys
    from (select distinct limit_id, key from gone where key <> '') g;
  end if;
  -- what is not used is not looked up
  select o.last_value, exists (select from ${jobs}.limit_rule r where r.queue_id = p_queue and r.rate is not null),
    exists (select from ${jobs}.key_pause z where z.queue_id = p_queue)
  into v_last, v_rates, v_pauses from ${jobs}.slot_order o;
  if v_rates then
    select array_agg(d.limit_id), array_agg(d.key) into v_due_limits, v_due_keys
    from (
      select b.limit_id, b.key from ${jobs}.bucket b
      where b.queue_id = p_queue and b.wake_at <= v_now
      order by b.wake_at limit 100
    ) d;
  end if;

  with wanted as materialized (
    select w.lane, w.at, w.id, w.back, w.room, w.until, w.line::integer as line, l.kind
    from unnest(p_lanes, p_ats, p_ids, p_backs, p_rooms, p_untils) with ordinality w (lane, at, id, back, room, until, line)
    join ${jobs}.lane l on l.queue_id = p_queue and l.id = w.lane % 10000
  ), rules as materialized (
    select * from ${jobs}.limit_rules(p_queue)
  ), live as materialized (
    select s.limit_id, s.key, count(*) as n, min(s.seq) as first
    from ${jobs}.slot s where s.queue_id = p_queue and s.seq >= p_since
    group by s.limit_id, s.key
  ), plain as materialized (
    select r.kind, ${jobs}.limit_left(r.max, l.n, r.rate, r.burst, r.cost, b.full_at, v_us) as n
    from rules r
    left join live l on l.limit_id = r.id and l.key = ''
    left join lateral (
      select b.full_at from ${jobs}.bucket b
      where v_rates and b.queue_id = p_queue and b.limit_id = r.id and b.key = '' offset 0
    ) b on true
    where r.key_path = ''
  ), freed as materialized (
    select f.limit_id, f.key, case when z.key is null
      then least(p_depth, ${jobs}.limit_left(r.max, l.n, r.rate, r.burst, r.cost, b.full_at, v_us)) else 0 end as n
    from (
      select u.limit_id, u.key from unnest(v_free_limits, v_free_keys) u (limit_id, key)
      union
      select u.limit_id, u.key from unnest(v_due_limits, v_due_keys) u (limit_id, key)
    ) f
    join rules r on r.id = f.limit_id
    left join live l on l.limit_id = f.limit_id and l.key = f.key
    left join lateral (
      select b.full_at from ${jobs}.bucket b
      where v_rates and b.queue_id = p_queue and b.limit_id = f.limit_id and b.key = f.key offset 0
    ) b on true
    left join lateral (
      select z.key from ${jobs}.key_pause z
      where v_pauses and z.queue_id = p_queue and z.limit_id = f.limit_id and z.key = f.key
        and (z.paused_until is null or z.paused_until > v_now) offset 0
    ) z on true
  ), waiting as materialized (
    select j.id, j.lane - 10000 as lane, j.run_at, j.kind, j.payload, j.xmin
    from freed f
    cross join lateral (
      select p.job_id from ${jobs}.parked p
      where p.queue_id = p_queue and p.limit_id = f.limit_id and p.key = f.key and exists (
        select from ${jobs}.job j where j.id = p.job_id and j.queue_id = p_queue and j.lane between 10000 and 19999 offset 0)
      order by p.priority desc, p.run_at, p.job_id
      limit f.n
    ) p
    cross join lateral (
      select j.id, j.lane, j.run_at, j.kind, j.payload, j.xmin
      from ${jobs}.job j where j.id = p.job_id and j.queue_id = p_queue offset 0
    ) j
  ), seen as materialized (
    select one.id, w.line, one.run_at, one.kind, one.payload, one.xmin, one.expired
    from wanted w
    left join plain k on k.kind = w.kind
    cross join lateral (
      select j.id, j.run_at, j.kind, j.payload, j.xmin, j.lease_until is not null as expired
      from ${jobs}.job j
      where j.queue_id = p_queue and j.lane = w.lane and j.lane > -1
        and (j.run_at, j.id) > (w.at - w.back * interval '1 ms', case when w.back > 0 then 0 else w.id end)
        and j.run_at <= least(v_now, w.at - w.until * interval '1 ms')
        and (j.lease_until is null or (j.lease_until < v_now and v_now < p_take_over_until))
      order by j.run_at, j.id
      limit greatest(least(w.room, p_room), case when exists (select from rules r where r.key_path <> '') then p_depth end)
    ) one
    where coalesce(k.n, 1) > 0 and not exists (select from plain q where q.kind = '' and q.n <= 0)
  ), candidate as materialized (
    select c.*, row_number() over (order by c.picked desc, c.line, c.run_at, c.id)::integer as at
    from (
      -- one that was put off since it was parked goes back to its lane
      select p.id, w.line, p.run_at, p.kind, p.payload, p.xmin, false as expired, true as picked
      from waiting p join wanted w on w.lane = p.lane
      where p.run_at <= v_now
      union all
      select s.id, s.line, s.run_at, s.kind, s.payload, s.xmin, s.expired, false from seen s
    ) c
  ), need as materialized (
    select c.at, r.id as limit_id, k.key
    from candidate c
    join rules r on r.kind in ('', c.kind)
    cross join lateral (
      select case when r.key_path = '' then '' else left(nullif(c.payload #>> r.path, ''), 512) end as key
    ) k
    where k.key is not null
  ), part as materialized (
    select k.limit_id, k.key, row_number() over ()::integer as number, case when z.key is null
      then ${jobs}.limit_left(r.max, l.n, r.rate, r.burst, r.cost, b.full_at, v_us) else 0 end as n
    from (select distinct p.limit_id, p.key from need p) k
    join rules r on r.id = k.limit_id
    left join live l on l.limit_id = k.limit_id and l.key = k.key
    left join lateral (
      select b.full_at from ${jobs}.bucket b
      where v_rates and b.queue_id = p_queue and b.limit_id = k.limit_id and b.key = k.key offset 0
    ) b on true
    left join lateral (
      select z.key from ${jobs}.key_pause z
      where v_pauses and z.queue_id = p_queue and z.limit_id = k.limit_id and z.key = k.key
        and (z.paused_until is null or z.paused_until > v_now) offset 0
    ) z on true
  )
  select c.ids, c.lines, c.picked, c.expired, c.xmins, n.ats, n.parts, l.limits, l.keys, l.lefts,
    array(select p.id from waiting p), (select min(l.first) from live l), exists (select from plain k where k.n <= 0)
  into c_ids, c_lines, c_picked, c_expired, c_xmins, n_at, n_part, l_limit, l_key, l_left, v_waiting, v_first, v_blocked
  from (
    select array_agg(c.id order by c.at) as ids, array_agg(c.line order by c.at) as lines,
      array_agg(c.picked order by c.at) as picked, array_agg(c.expired order by c.at) as expired,
      array_agg(c.xmin order by c.at) as xmins
    from candidate c
  ) c cross join (
    select array_agg(n.at order by n.at, n.number) as ats, array_agg(n.number order by n.at, n.number) as parts
    from (select n.at, p.number from need n join part p on p.limit_id = n.limit_id and p.key = n.key) n
  ) n cross join (
    select array_agg(p.limit_id order by p.number) as limits, array_agg(p.key order by p.number) as keys,
      array_agg(p.n order by p.number) as lefts
    from part p
  ) l;

  v_room := p_room;
  for i in 1 .. coalesce(cardinality(c_ids), 0) loop
    exit when v_room = 0;
    v_starts := v_rooms[c_lines[i]] > 0;
    v_full := 0;
    v_next := v_need;
    while n_at[v_next] = i loop
      if l_left[n_part[v_next]] <= 0 then
        v_starts := false;
        if l_key[n_part[v_next]] = '' then
          v_blocked := true;
        else
          v_full := n_part[v_next];
        end if;
      end if;
      v_next := v_next + 1;
    end loop;
    if v_starts then
      v_room := v_room - 1;
      v_rooms[c_lines[i]] := v_rooms[c_lines[i]] - 1;
      t_ids := t_ids || c_ids[i];
      while v_need < v_next loop
        l_left[n_part[v_need]] := l_left[n_part[v_need]] - 1;
        s_ids := s_ids || c_ids[i];
        s_limits := s_limits || l_limit[n_part[v_need]];
        s_keys := s_keys || l_key[n_part[v_need]];
        v_need := v_need + 1;
      end loop;
    elsif v_full > 0 and not c_expired[i] then
      k_ids := k_ids || c_ids[i];
      k_limits := k_limits || l_limit[v_full];
      k_keys := k_keys || l_key[v_full];
      k_picked := k_picked || c_picked[i];
    end if;
    v_need := v_next;
  end loop;

  if cardinality(t_ids) > 0 then
    return query
    with free as materialized (
      select j.id from ${jobs}.job j
      where j.queue_id = p_queue and j.id = any(t_ids)
        -- as it was judged: nobody has replaced its payload or its time since
        and j.xmin = c_xmins[array_position(c_ids, j.id)]
        and (j.lease_until is null or (j.lease_until < v_now and v_now < p_take_over_until))
      for update skip locked
    ), told as (
      insert into ${jobs}.event (job_id, started_at, attempt, worker, queue_id, generation, event, details)
      select j.id, case when told.rescue then j.claimed_at end, j.attempt + 1, p_worker, j.queue_id, j.generation,
        case when told.rescue then 'rescued' else 'started' end,
        case when told.rescue then jsonb_build_object('worker', abs(j.worker)) end
      from ${jobs}.job j cross join (values (true), (false)) told (rescue)
      where p_tells and j.queue_id = p_queue and j.id = any(array(select f.id from free f))
        and case when told.rescue
          then j.lease_until is not null and (select q.history from ${jobs}.queue q where q.id = p_queue) in ('exceptions', 'full')
          else (select q.history from ${jobs}.queue q where q.id = p_queue) = 'full' end
    ), taken as (
      update ${jobs}.job j
      set lease_until = v_now + p_lease_ms * interval '1 ms', claimed_at = v_now, worker = p_worker, attempt = j.attempt + 1,
        crashes = j.crashes + (j.lease_until is not null)::integer,
        lane = case when j.lane between 10000 and 19999 then j.lane - 10000 else j.lane end
      where j.queue_id = p_queue and j.id = any(array(select f.id from free f))
      returning j.id, j.lane, j.attempt, j.failures, j.crashes, j.attempts, j.timeout_ms, j.run_at, j.payload, j.headers,
        j.kind, j.cancel_at
    ), slots as (
      insert into ${jobs}.slot (queue_id, limit_id, key, job_id, attempt, worker)
      select p_queue, s.limit_id, s.key, t.id, t.attempt, p_worker
      from taken t join unnest(s_ids, s_limits, s_keys) s (id, limit_id, key) on s.id = t.id
    ), unparked as (
      delete from ${jobs}.parked p
      where p.queue_id = p_queue and p.job_id = any(v_waiting) and p.job_id = any(array(select t.id from taken t))
    ), spent as (
      insert into ${jobs}.bucket as b (queue_id, limit_id, key, full_at)
      select p_queue, u.limit_id, u.key, v_us + u.n * r.cost
      from (
        select s.limit_id, s.key, count(*) as n
        from taken t join unnest(s_ids, s_limits, s_keys) s (id, limit_id, key) on s.id = t.id
        group by s.limit_id, s.key
      ) u join ${jobs}.limit_rules(p_queue) r on r.id = u.limit_id and r.rate is not null
      on conflict (queue_id, limit_id, key)
      do update set full_at = greatest(b.full_at, v_us) + (excluded.full_at - v_us)
    )
    select t.id, t.lane, t.attempt, t.failures, t.crashes, t.attempts, t.timeout_ms, t.run_at, t.payload, t.headers, t.kind,
      case when t.cancel_at is null then c_expired[array_position(c_ids, t.id)] end, t.id = any(v_waiting), null::jsonb
    from taken t;
  end if;

  v_news := jsonb_build_object('since', least(v_first, v_last), 'blocked', v_blocked, 'parked', 0, 'strays', 0);
  if cardinality(k_ids) > 0 then
    with free as materialized (
      select j.id from ${jobs}.job j
      where j.queue_id = p_queue and j.lane between 0 and 9999 and j.lease_until is null and j.id = any(k_ids)
      for update skip locked
    ), moved as (
      update ${jobs}.job j set lane = j.lane + 10000
      where j.queue_id = p_queue and j.id = any(array(select f.id from free f))
      returning j.id
    ), parked as (
      insert into ${jobs}.parked (queue_id, job_id, limit_id, key, priority, run_at)
      select p_queue, k.id, k.limit_id, k.key, l.priority, j.run_at
      from unnest(k_ids, k_limits, k_keys, k_picked) k (id, limit_id, key, picked)
      cross join lateral (
        select j.lane, j.run_at from ${jobs}.job j where j.id = k.id and j.queue_id = p_queue offset 0
      ) j
      join ${jobs}.lane l on l.queue_id = p_queue and l.id = j.lane % 10000
      where k.picked or k.id in (select m.id from moved m)
      on conflict (queue_id, job_id) do update
        set limit_id = excluded.limit_id, key = excluded.key, priority = excluded.priority, run_at = excluded.run_at
      returning 1
    )
    select v_news || jsonb_build_object('parked', count(*)) into v_news from moved;
  end if;
  if cardinality(v_waiting) > 0 then
    -- its key has room, and it does not start here now: back to where all look for it
    with stray as materialized (
      select j.id from ${jobs}.job j
      where j.queue_id = p_queue and j.lane between 10000 and 19999 and j.id = any(v_waiting) and not j.id = any(k_ids)
      for update skip locked
    ), moved as (
      update ${jobs}.job j set lane = j.lane - 10000
      where j.queue_id = p_queue and j.id = any(array(select s.id from stray s))
      returning j.id
    ), unparked as (
      delete from ${jobs}.parked p where p.queue_id = p_queue and p.job_id = any(array(select m.id from moved m))
    )
    select v_news || jsonb_build_object('strays', count(*)) into v_news from moved;
  end if;

  if v_rates and (cardinality(k_ids) > 0 or v_due_limits is not null or cardinality(v_free_limits) > 0) then
    -- keys of a rate for which jobs are parked: when the next of them may start
    insert into ${jobs}.bucket as b (queue_id, limit_id, key, full_at, wake_at)
    select p_queue, u.limit_id, u.key, 0, null
    from (
      select k.limit_id, k.key from unnest(k_limits, k_keys) k (limit_id, key)
      union
      select u.limit_id, u.key from unnest(v_due_limits, v_due_keys) u (limit_id, key)
      union
      select u.limit_id, u.key from unnest(v_free_limits, v_free_keys) u (limit_id, key)
    ) u join ${jobs}.limit_rules(p_queue) r on r.id = u.limit_id and r.rate is not null
    on conflict (queue_id, limit_id, key) do update set wake_at = (
      select t.at
      from ${jobs}.limit_rules(p_queue) r
      cross join lateral (select to_timestamp((b.full_at + r.cost - r.burst * r.cost) / 1000000.0) as at) t
      where r.id = excluded.limit_id and t.at > v_now and exists (
        select from ${jobs}.parked p where p.queue_id = p_queue and p.limit_id = excluded.limit_id and p.key = excluded.key));
  end if;

  if not v_rates then
    return query select null::bigint, null::smallint, null::integer, null::smallint, null::smallint, null::smallint,
      null::bigint, null::timestamptz, null::jsonb, null::jsonb, null::text, null::boolean, null::boolean, v_news;
    return;
  end if;
  -- a command of its own: it sees what was spent
  return query
  select null::bigint, null::smallint, null::integer, null::smallint, null::smallint, null::smallint, null::bigint,
      null::timestamptz, null::jsonb, null::jsonb, null::text, null::boolean, null::boolean,
    v_news || jsonb_build_object('wait', case when min(w.at_us) is not null
      then ceil(greatest(0, min(w.at_us) - v_us) / 1000.0) end)
  from (
    select b.full_at + r.cost - r.burst * r.cost as at_us
    from ${jobs}.limit_rules(p_queue) r
    join ${jobs}.bucket b on b.queue_id = p_queue and b.limit_id = r.id and b.key = ''
    where r.rate is not null and ${jobs}.limit_left(null, null, r.rate, r.burst, r.cost, b.full_at, v_us) = 0
    union all
    (select floor(extract(epoch from b.wake_at) * 1000000)::bigint from ${jobs}.bucket b
     where b.queue_id = p_queue and b.wake_at is not null order by b.wake_at limit 1)
  ) w;
end $$;
`;
