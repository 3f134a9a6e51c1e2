// What the claim and the sweep of queues with limits have in common.

/**
 * Each look-up by its key, whatever the statistics: a join planned for others has walked the whole backlog. Where two indexes
 * could serve, conditions stand outside of it; rows that were found are changed by their place.
 */
export const LOOK_UPS = `
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set plan_cache_mode = force_generic_plan`.trim();

/** The jobs `x_ids` go from their lines back to their lanes, those that nobody has locked: `moved`. */
export const toLanes = (jobs: string): string => `free as materialized (
      select j.at from unnest(x_ids) x (id) cross join lateral (
        select j.ctid as at, j.lane from ${jobs}.job j where j.id = x.id and j.queue_id = p_queue offset 0 for update skip locked
      ) j
      where j.lane between 10000 and 19999
    ), moved as (
      update ${jobs}.job j set lane = j.lane - 10000 where j.ctid = any(array(select f.at from free f))
      returning j.id
    )`;

export const laneIdles = (jobs: string): string => `
-- nobody takes the jobs of this lane now: its kind is paused, or no worker that lives has a handler for it
create function ${jobs}.lane_idles(p_queue integer, p_lane smallint, p_now timestamptz) returns boolean language sql stable as
$$ select not exists (
    select from ${jobs}.worker w
    where w.stopped_at is null and w.beat_at > p_now - interval '1 minute' and w.kinds -> q.name ? l.kind
  ) or exists (
    select from ${jobs}.pause z
    where z.queue_id = p_queue and z.kind in ('', l.kind) and (z.paused_until is null or z.paused_until > p_now)
  )
  from ${jobs}.queue q join ${jobs}.lane l on l.queue_id = q.id where q.id = p_queue and l.id = p_lane $$;
`;
