import { LOOK_UPS, toLanes } from "./lanes.js";

/** The next ones of a line, in its order. One that somebody has locked holds nobody up. */
const ofLine = (jobs: string, from: string): string => `
        select j.id, (j.lane - 10000)::smallint as lane, p.ctid as at, j.run_at <= v_now as due, p.priority, p.run_at
        from ${jobs}.parked p cross join lateral (
          select j.id, j.lane, j.run_at from ${jobs}.job j
          where j.id = p.job_id and j.queue_id = p_queue offset 0 for update skip locked
        ) j
        where p.queue_id = p_queue and p.limit_id = f.limit_id and p.key = f.key ${from} and j.lane between 10000 and 19999
        order by p.priority desc, p.run_at, p.job_id
        limit f.n`;

/** All lines that have room. */
const inLines = (next: string): string => `
      select coalesce(array_agg(w.id), '{}'), coalesce(array_agg(w.lane), '{}'), coalesce(array_agg(w.at), '{}'),
        coalesce(array_agg(f.line::integer), '{}'), coalesce(array_agg(w.due), '{}'), coalesce(array_agg(w.priority), '{}'),
        coalesce(array_agg(w.run_at), '{}')
      into w_ids, w_lanes, w_ats, w_lines, w_due, w_priorities, w_run_ats
      from unnest(f_limits, f_keys, f_wanted, h_priorities, h_run_ats, h_ids) with ordinality
        f (limit_id, key, n, head_priority, head_run_at, head_id, line)
      cross join lateral (${next}) w
      where f.n > 0;`;

/**
 * The claim of a queue that has limits, as `0005/claim-limited.ts` made it and says how it works; but for what waits for its
 * key: one that somebody has locked, or whom another key holds, keeps nobody behind it, and what a held snapshot keeps of a
 * line is not walked each time.
 *
 * For that a connection remembers where such a line began when it took long to get there, and looks from there on; once in a
 * while from its beginning, for those that were put before it. It is a setting of the session: others that share the
 * connection may use it as well, and one that is given back clean knows nothing.
 */
export const claimLimited = (jobs: string): string => `
create or replace function ${jobs}.claim_limited(
  p_queue integer, p_version integer, p_lanes smallint[], p_ats timestamptz[], p_ids bigint[], p_backs float8[],
  p_rooms integer[], p_untils float8[], p_room integer, p_lease_ms float8, p_worker integer, p_take_over_until timestamptz,
  p_tells boolean, p_over bigint[], p_depth integer, p_since bigint)
returns table (id bigint, lane smallint, attempt integer, failures smallint, crashes smallint, attempts smallint,
  timeout_ms bigint, run_at timestamptz, payload jsonb, headers jsonb, kind text, rescued boolean, picked boolean, news jsonb)
language plpgsql volatile
${LOOK_UPS} as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_us bigint;
  v_open boolean;
  v_last bigint;
  v_first bigint;
  v_used jsonb;
  v_rates boolean;
  v_pauses boolean;
  v_blocked boolean := false;
  v_news jsonb;
  v_room integer := p_room;
  v_rooms integer[] := p_rooms;
  v_depth integer := 0;
  v_waits boolean;
  -- the rules
  r_ids smallint[];
  r_kinds text[];
  r_paths text[];
  r_maxes integer[];
  r_bursts bigint[];
  r_costs bigint[];
  -- what jobs count for: a rule, for a key its own; how many more it lets start
  l_names text[] := '{}';
  l_rules integer[] := '{}';
  l_keys text[] := '{}';
  l_left bigint[] := '{}';
  v_key text;
  v_name text;
  v_at integer;
  v_all integer[];
  v_full integer;
  v_starts boolean;
  c record;
  -- lines whose parked jobs may start: how many of them, where it is in l_, how many are looked for, from where on
  f_limits smallint[] := '{}';
  f_keys text[] := '{}';
  f_left bigint[] := '{}';
  f_names integer[] := '{}';
  f_wanted bigint[];
  f_back bigint[] := '{}';
  f_ends boolean[] := '{}';
  v_budget bigint;
  v_idles boolean;
  i_lanes smallint[] := '{}';
  i_idle boolean[] := '{}';
  h_any boolean := false;
  h_priorities smallint[] := '{}';
  h_run_ats timestamptz[] := '{}';
  h_ids bigint[] := '{}';
  -- where lines began
  v_setting text := 'nestjs_pg_jobs.lines_' || to_hex(${jobs}.lock_limits(p_queue));
  v_lines jsonb;
  v_line jsonb;
  v_before timestamptz;
  v_took float8;
  -- what a round found of them; all that were met; those that go back to their lanes
  w_ids bigint[] := '{}';
  w_lanes smallint[] := '{}';
  w_ats tid[] := '{}';
  w_lines integer[] := '{}';
  w_due boolean[] := '{}';
  w_priorities smallint[] := '{}';
  w_run_ats timestamptz[] := '{}';
  w_judged bigint[];
  m_ids bigint[] := '{}';
  m_ats tid[] := '{}';
  x_ids bigint[] := '{}';
  -- what is decided: who starts, with the slots it needs; who is set aside, for which key
  t_ids bigint[] := '{}';
  v_taken bigint[] := '{}';
  v_ats tid[];
  t_xmins xid[] := '{}';
  t_expired boolean[] := '{}';
  s_ids bigint[] := '{}';
  s_limits smallint[] := '{}';
  s_keys text[] := '{}';
  k_ids bigint[] := '{}';
  k_limits smallint[] := '{}';
  k_keys text[] := '{}';
  k_picked boolean[] := '{}';
  k_xmins xid[] := '{}';
begin
  if not pg_try_advisory_xact_lock(${jobs}.lock_limits(p_queue)) then
    v_news := '{"busy": true}';
  else
    select q.id is not null, o.last_value, r.ids, r.kinds, r.paths, r.maxes, r.bursts, r.costs, r.rates,
      exists (select from ${jobs}.key_pause z where z.queue_id = p_queue)
    into v_open, v_last, r_ids, r_kinds, r_paths, r_maxes, r_bursts, r_costs, v_rates, v_pauses
    from ${jobs}.slot_order o cross join (
      select array_agg(r.id) as ids, array_agg(r.kind) as kinds, array_agg(r.key_path) as paths, array_agg(r.max) as maxes,
        array_agg(r.burst) as bursts, array_agg(r.cost) as costs, coalesce(bool_or(r.rate is not null), false) as rates
      from ${jobs}.limit_rules(p_queue) r
    ) r left join lateral (
      select q.id from ${jobs}.queue q join ${jobs}.limit_gate g on g.queue_id = q.id
      where q.id = p_queue and q.version = p_version and g.opened offset 0
    ) q on true;
    if not v_open then
      v_news := '{"closed": true}';
    end if;
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
      where s.queue_id = p_queue and s.job_id = any(p_over) and s.seq >= p_since
        and not exists (
          select from ${jobs}.job j
          where j.id = s.job_id and j.queue_id = p_queue and j.attempt = s.attempt and j.worker = s.worker
            and j.lease_until is not null offset 0)
      returning s.limit_id, s.key
    )
    select coalesce(array_agg(g.limit_id), '{}'), coalesce(array_agg(g.key), '{}') into f_limits, f_keys
    from (select distinct limit_id, key from gone where key <> '') g;
  end if;
  if v_rates then
    select f_limits || coalesce(array_agg(d.limit_id), '{}'), f_keys || coalesce(array_agg(d.key), '{}') into f_limits, f_keys
    from (
      select b.limit_id, b.key from ${jobs}.bucket b
      where b.queue_id = p_queue and b.wake_at <= v_now
      order by b.wake_at limit 100
    ) d
    where not exists (select from unnest(f_limits, f_keys) f (limit_id, key) where f.limit_id = d.limit_id and f.key = d.key);
  end if;
  select jsonb_object_agg(l.limit_id || ' ' || l.key, l.n), min(l.first) into v_used, v_first
  from (
    select s.limit_id, s.key, count(*) as n, min(s.seq) as first
    from ${jobs}.slot s where s.queue_id = p_queue and s.seq >= p_since
    group by s.limit_id, s.key
  ) l;

  -- what holds for all, or for a kind
  for i in 1 .. coalesce(cardinality(r_ids), 0) loop
    if r_paths[i] <> '' then
      v_depth := p_depth;
      continue;
    end if;
    l_names := l_names || (r_ids[i] || ' ');
    l_rules := l_rules || i;
    l_keys := l_keys || ''::text;
    l_left := l_left || ${jobs}.limit_left(p_queue, r_ids[i], '', r_maxes[i], (v_used ->> (r_ids[i] || ' '))::bigint,
      r_bursts[i], r_costs[i], v_now, false);
    if l_left[cardinality(l_left)] = 0 then
      v_blocked := true;
      if r_kinds[i] = '' then
        v_room := 0;
      else
        select array_agg(case when k.kind = r_kinds[i] then 0 else w.room end order by w.line) into v_rooms
        from unnest(p_lanes, v_rooms) with ordinality w (lane, room, line)
        left join lateral (
          select l.kind from ${jobs}.lane l where l.queue_id = p_queue and l.id = w.lane % 10000 offset 0
        ) k on true;
      end if;
    end if;
  end loop;

  if cardinality(f_limits) > 0 then
    v_lines := nullif(current_setting(v_setting, true), '')::jsonb;
    for i in 1 .. cardinality(f_limits) loop
      h_priorities := h_priorities || 32767::smallint;
      h_run_ats := h_run_ats || '-infinity'::timestamptz;
      h_ids := h_ids || 0::bigint;
      f_back := f_back || 0::bigint;
      f_ends := f_ends || false;
      v_at := array_position(r_ids, f_limits[i]);
      if v_at is null then
        f_left := f_left || 0::bigint;
        f_names := f_names || 0;
        continue;
      end if;
      v_name := f_limits[i] || ' ' || f_keys[i];
      l_names := l_names || v_name;
      l_rules := l_rules || v_at;
      l_keys := l_keys || f_keys[i];
      l_left := l_left || ${jobs}.limit_left(p_queue, f_limits[i], f_keys[i], r_maxes[v_at], (v_used ->> v_name)::bigint,
        r_bursts[v_at], r_costs[v_at], v_now, v_pauses);
      f_left := f_left || least(p_depth, l_left[cardinality(l_left)]);
      f_names := f_names || cardinality(l_names);
      v_line := v_lines -> v_name;
      if (v_line ->> 'until')::bigint > v_us then
        h_any := true;
        h_priorities[i] := (v_line ->> 'priority')::smallint;
        h_run_ats[i] := (v_line ->> 'run_at')::timestamptz;
        h_ids[i] := (v_line ->> 'id')::bigint;
      end if;
    end loop;
    f_wanted := f_left;
  end if;

  -- The first ones of a line may be kept by something else: then it is looked through further.
  for v_round in 1 .. 3 loop
    if cardinality(f_limits) > 0 then
      v_before := clock_timestamp();
      if h_any then
        ${inLines(
          `select r.* from (
            (${ofLine(jobs, "and p.priority > f.head_priority and v_round = 1")})
            union all
            (${ofLine(jobs, "and p.priority = f.head_priority and (p.run_at, p.job_id) > (f.head_run_at, f.head_id)")})
            union all
            (${ofLine(jobs, "and p.priority < f.head_priority")})
          ) r limit f.n`,
        )}
      else
        ${inLines(ofLine(jobs, ""))}
      end if;
      m_ids := m_ids || w_ids;
      m_ats := m_ats || w_ats;
      v_took := extract(epoch from clock_timestamp() - v_before) * 1000;
      if v_round = 1 and v_took > 2 + 0.1 * cardinality(w_ids) then
        select coalesce(jsonb_object_agg(h.key, h.value), '{}') into v_lines
        from jsonb_each(v_lines) h
        where (h.value ->> 'until')::bigint > v_us and (select count(*) from jsonb_object_keys(v_lines)) < 50;
        for i in 1 .. cardinality(f_limits) loop
          continue when f_wanted[i] = 0;
          -- the first that is there, locked or not; it is looked for from the beginning in a fiftieth of the time
          select v_lines || jsonb_build_object(f_limits[i] || ' ' || f_keys[i], jsonb_build_object(
            'priority', p.priority, 'run_at', p.run_at, 'id', p.job_id - 1, 'until',
            coalesce((v_lines -> (f_limits[i] || ' ' || f_keys[i]) ->> 'until')::bigint,
              v_us + greatest(10000000, v_took * 50000)::bigint)))
          into v_line
          from (select 1) one left join lateral (
            select p.priority, p.run_at, p.job_id from ${jobs}.parked p
            where p.queue_id = p_queue and p.limit_id = f_limits[i] and p.key = f_keys[i]
            order by p.priority desc, p.run_at, p.job_id limit 1
          ) p on true
          where p.job_id is not null;
          if found then
            v_lines := v_line;
          end if;
        end loop;
        perform set_config(v_setting, v_lines::text, false);
      end if;
    end if;

    w_judged := '{}';
    if v_room > 0 then
      for c in
        select j.id, w.line, j.run_at, j.kind, j.payload, j.xmin, false as expired, p.line as picked, 0 as later, p.priority
        from unnest(w_ids, w_lanes, w_lines, w_due, w_priorities) p (id, lane, line, due, priority)
        join unnest(p_lanes) with ordinality w (lane, line) on w.lane = p.lane
        cross join lateral (
          select j.id, j.run_at, j.kind, j.payload, j.xmin from ${jobs}.job j where j.id = p.id and j.queue_id = p_queue offset 0
        ) j
        where p.due
        union all
        select one.id, w.line, one.run_at, one.kind, one.payload, one.xmin, one.expired, null, 1, l.priority
        from unnest(p_lanes, p_ats, p_ids, p_backs, v_rooms, p_untils) with ordinality w (lane, at, id, back, room, until, line)
        cross join lateral (
          select l.priority from ${jobs}.lane l where l.queue_id = p_queue and l.id = w.lane % 10000 offset 0
        ) l
        cross join lateral (
          select j.id, j.run_at, j.kind, j.payload, j.xmin, j.lease_until is not null as expired
          from ${jobs}.job j
          where j.queue_id = p_queue and j.lane = w.lane and j.lane > -1
            and (j.run_at, j.id) > (w.at - w.back * interval '1 ms', case when w.back > 0 then 0 else w.id end)
            and j.run_at <= least(v_now, w.at - w.until * interval '1 ms')
            and (j.lease_until is null or (j.lease_until < v_now and v_now < p_take_over_until))
          order by j.run_at, j.id
          limit greatest(least(w.room, v_room), v_depth)
        ) one
        where w.room > 0 and v_round = 1
        -- one whose worker died is seen by searches only: a line that never ends must not be before it
        order by priority desc, expired desc, later, line, run_at, id
      loop
        -- of many lanes: no more is set aside at once than there is time for
        exit when v_room = 0 or cardinality(k_ids) >= greatest(p_depth, 1000);
        if c.picked is not null then
          w_judged := w_judged || c.id;
          -- no room is left for those behind the ones that start
          continue when l_left[f_names[c.picked]] <= 0;
        end if;
        v_starts := v_rooms[c.line] > 0;
        v_waits := not v_starts;
        v_full := null;
        v_all := '{}';
        for i in 1 .. coalesce(cardinality(r_ids), 0) loop
          continue when r_kinds[i] <> '' and r_kinds[i] <> c.kind;
          v_key := '';
          if r_paths[i] <> '' then
            v_key := left(nullif(c.payload #>> string_to_array(r_paths[i], '.'), ''), 512);
            continue when v_key is null;
          end if;
          v_name := r_ids[i] || ' ' || v_key;
          v_at := array_position(l_names, v_name);
          if v_at is null then
            v_at := cardinality(l_names) + 1;
            l_names := l_names || v_name;
            l_rules := l_rules || i;
            l_keys := l_keys || v_key;
            l_left := l_left || ${jobs}.limit_left(p_queue, r_ids[i], v_key, r_maxes[i], (v_used ->> v_name)::bigint,
              r_bursts[i], r_costs[i], v_now, v_pauses);
          end if;
          v_all := v_all || v_at;
          if l_left[v_at] <= 0 then
            v_starts := false;
            if v_key = '' then
              v_blocked := true;
              v_waits := true;
            elsif v_full is null or coalesce(r_maxes[i], 2147483647) < coalesce(r_maxes[l_rules[v_full]], 2147483647) then
              -- of several, the tightest is likely to keep it longest
              v_full := v_at;
            end if;
          end if;
        end loop;
        if v_starts then
          v_room := v_room - 1;
          v_rooms[c.line] := v_rooms[c.line] - 1;
          t_ids := t_ids || c.id;
          t_xmins := t_xmins || c.xmin;
          t_expired := t_expired || c.expired;
          foreach v_at in array v_all loop
            l_left[v_at] := l_left[v_at] - 1;
            s_ids := s_ids || c.id;
            s_limits := s_limits || r_ids[l_rules[v_at]];
            s_keys := s_keys || l_keys[v_at];
          end loop;
        elsif v_full is not null and not c.expired and (c.picked is not null or not v_waits) then
          k_ids := k_ids || c.id;
          k_limits := k_limits || r_ids[l_rules[v_full]];
          k_keys := k_keys || l_keys[v_full];
          k_picked := k_picked || (c.picked is not null);
          k_xmins := k_xmins || c.xmin;
        elsif c.picked is not null and v_full is null and (f_back[c.picked] < f_left[c.picked] or v_round = 3) then
          -- Its key has room, and it waits for its kind: back to where that looks for it; as many as could start, or all if
          -- nobody was found behind them.
          f_back[c.picked] := f_back[c.picked] + 1;
          x_ids := x_ids || c.id;
          -- the others of a line of one kind wait for it too
          f_ends[c.picked] := r_kinds[l_rules[f_names[c.picked]]] <> '';
        end if;
      end loop;
    end if;

    exit when cardinality(w_ids) = 0;
    for i in 1 .. cardinality(w_ids) loop
      continue when w_ids[i] = any(w_judged);
      v_at := f_names[w_lines[i]];
      v_idles := false;
      if not w_lanes[i] = any(p_lanes) then
        if array_position(i_lanes, w_lanes[i]) is null then
          i_lanes := i_lanes || w_lanes[i];
          i_idle := i_idle || ${jobs}.lane_idles(p_queue, w_lanes[i], v_now);
        end if;
        v_idles := i_idle[array_position(i_lanes, w_lanes[i])];
      end if;
      if v_idles and r_kinds[l_rules[v_at]] <> '' then
        -- nor can anybody else of its line
        f_ends[w_lines[i]] := true;
      elsif not w_due[i] or v_idles then
        -- put off, or nobody takes its lane now: it keeps no room of its key
        x_ids := x_ids || w_ids[i];
      elsif l_left[v_at] > 0 then
        -- it does not start here: others may
        x_ids := x_ids || w_ids[i];
        l_left[v_at] := l_left[v_at] - 1;
      end if;
    end loop;
    exit when v_room = 0;
    v_budget := 1000;
    for i in 1 .. cardinality(f_limits) loop
      v_at := array_length(array_positions(w_lines, i), 1);
      if v_at < f_wanted[i] or v_at is null or l_left[f_names[i]] <= 0 or f_ends[i] or v_budget <= 0 then
        f_wanted[i] := 0;
        continue;
      end if;
      v_at := (array_positions(w_lines, i))[v_at];
      h_any := true;
      h_priorities[i] := w_priorities[v_at];
      h_run_ats[i] := w_run_ats[v_at];
      h_ids[i] := w_ids[v_at];
      f_wanted[i] := least(l_left[f_names[i]] + case v_round when 1 then 100 else 500 end, v_budget);
      v_budget := v_budget - f_wanted[i];
    end loop;
    exit when 0 = all(f_wanted);
  end loop;

  if cardinality(t_ids) > 0 then
    -- as they were judged: nobody has replaced payload or time since
    select coalesce(array_agg(j.id), '{}'), coalesce(array_agg(j.at), '{}') into v_taken, v_ats
    from unnest(t_ids, t_xmins) t (id, seen) cross join lateral (
      select j.id, j.ctid as at, j.xmin, j.lease_until
      from ${jobs}.job j where j.id = t.id and j.queue_id = p_queue offset 0 for update skip locked
    ) j
    where j.xmin = t.seen and (j.lease_until is null or (j.lease_until < v_now and v_now < p_take_over_until));
    if p_tells then
      insert into ${jobs}.event (job_id, started_at, attempt, worker, queue_id, generation, event, details)
      select j.id, case when told.rescue then j.claimed_at end, j.attempt + 1, p_worker, j.queue_id, j.generation,
        case when told.rescue then 'rescued' else 'started' end,
        case when told.rescue then jsonb_build_object('worker', abs(j.worker)) end
      from ${jobs}.job j cross join (values (true), (false)) told (rescue)
      where j.ctid = any(v_ats)
        and case when told.rescue
          then j.lease_until is not null and (select q.history from ${jobs}.queue q where q.id = p_queue) in ('exceptions', 'full')
          else (select q.history from ${jobs}.queue q where q.id = p_queue) = 'full' end;
    end if;
    return query
    with taken as (
      update ${jobs}.job j
      set lease_until = v_now + p_lease_ms * interval '1 ms', claimed_at = v_now, worker = p_worker, attempt = j.attempt + 1,
        crashes = j.crashes + (j.lease_until is not null)::integer,
        lane = case when j.lane between 10000 and 19999 then j.lane - 10000 else j.lane end
      where j.ctid = any(v_ats)
      returning j.id, j.lane, j.attempt, j.failures, j.crashes, j.attempts, j.timeout_ms, j.run_at, j.payload, j.headers,
        j.kind, j.cancel_at
    ), slots as (
      insert into ${jobs}.slot (queue_id, limit_id, key, job_id, attempt, worker)
      select p_queue, s.limit_id, s.key, t.id, t.attempt, p_worker
      from taken t join unnest(s_ids, s_limits, s_keys) s (id, limit_id, key) on s.id = t.id
    )
    select t.id, t.lane, t.attempt, t.failures, t.crashes, t.attempts, t.timeout_ms, t.run_at, t.payload, t.headers, t.kind,
      case when t.cancel_at is null then t_expired[array_position(t_ids, t.id)] end, t.id = any(m_ids), null::jsonb
    from taken t;
    if cardinality(m_ids) > 0 then
      delete from ${jobs}.parked p where p.ctid = any(array(
        select w.at from unnest(m_ids, m_ats) w (id, at) where w.id = any(v_taken)));
    end if;
    if v_rates then
      insert into ${jobs}.bucket as b (queue_id, limit_id, key, full_at)
      select p_queue, u.limit_id, u.key, v_us + u.n * r.cost
      from (
        select s.limit_id, s.key, count(*) as n
        from unnest(s_ids, s_limits, s_keys) s (id, limit_id, key) where s.id = any(v_taken)
        group by s.limit_id, s.key
      ) u join ${jobs}.limit_rules(p_queue) r on r.id = u.limit_id and r.rate is not null
      on conflict (queue_id, limit_id, key)
      do update set full_at = greatest(b.full_at, v_us) + (excluded.full_at - v_us);
    end if;
  end if;

  v_news := jsonb_build_object('since', least(v_first, v_last), 'blocked', v_blocked, 'parked', 0, 'strays', 0);
  if cardinality(k_ids) > 0 then
    with free as materialized (
      -- as they were judged: their payload may have another key by now
      select j.at from unnest(k_ids, k_xmins) k (id, seen) cross join lateral (
        select j.ctid as at, j.xmin, j.lane, j.lease_until from ${jobs}.job j where j.id = k.id and j.queue_id = p_queue offset 0 for update skip locked
      ) j
      where j.xmin = k.seen and j.lane between 0 and 9999 and j.lease_until is null
    ), moved as (
      update ${jobs}.job j set lane = j.lane + 10000 where j.ctid = any(array(select f.at from free f))
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
  if cardinality(x_ids) > 0 then
    with ${toLanes(jobs)}, unparked as (
      delete from ${jobs}.parked p where p.ctid = any(array(
        select w.at from unnest(m_ids, m_ats) w (id, at) where w.id = any(array(select m.id from moved m))))
    )
    select v_news || jsonb_build_object('strays', count(*)) into v_news from moved;
  end if;

  if v_rates then
    if cardinality(k_ids) > 0 or cardinality(f_limits) > 0 then
      -- keys of a rate for which jobs are parked: when the next of them may start
      insert into ${jobs}.bucket as b (queue_id, limit_id, key, full_at, wake_at)
      select p_queue, u.limit_id, u.key, 0, null
      from (
        select k.limit_id, k.key from unnest(k_limits, k_keys) k (limit_id, key)
        union
        select u.limit_id, u.key from unnest(f_limits, f_keys) u (limit_id, key)
      ) u join ${jobs}.limit_rules(p_queue) r on r.id = u.limit_id and r.rate is not null
      on conflict (queue_id, limit_id, key) do update set wake_at = (
        select t.at
        from ${jobs}.limit_rules(p_queue) r
        cross join lateral (select to_timestamp((b.full_at + r.cost - r.burst * r.cost) / 1000000.0) as at) t
        where r.id = excluded.limit_id and t.at > v_now and exists (
          select from ${jobs}.parked p where p.queue_id = p_queue and p.limit_id = excluded.limit_id and p.key = excluded.key));
    end if;
    -- a command of its own: it sees what was spent
    select v_news || jsonb_build_object('wait', case when min(w.at_us) is not null
      then ceil(greatest(0, min(w.at_us) - v_us) / 1000.0) end) into v_news
    from (
      select b.full_at + r.cost - r.burst * r.cost as at_us
      from ${jobs}.limit_rules(p_queue) r
      join ${jobs}.bucket b on b.queue_id = p_queue and b.limit_id = r.id and b.key = ''
      where r.rate is not null and r.burst * r.cost - greatest(b.full_at - v_us, 0) < r.cost
      union all
      (select floor(extract(epoch from b.wake_at) * 1000000)::bigint from ${jobs}.bucket b
       where b.queue_id = p_queue and b.wake_at is not null order by b.wake_at limit 1)
    ) w;
  end if;
  return query select null::bigint, null::smallint, null::integer, null::smallint, null::smallint, null::smallint,
    null::bigint, null::timestamptz, null::jsonb, null::jsonb, null::text, null::boolean, null::boolean, v_news;
end $$;
`;
