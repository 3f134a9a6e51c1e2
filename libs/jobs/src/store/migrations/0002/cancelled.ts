/** A cancelled job that is requeued leaves `done`: the counters, which only saw jobs come there, follow it. */
export const cancelled = (jobs: string) => `
create function ${jobs}.count_done_out() returns trigger language plpgsql as $$
begin
  insert into ${jobs}.stat_delta (queue_id, lane, state, day, n)
    select queue_id, lane, state, (finished_at at time zone 'UTC')::date, -count(*) from changed group by 1, 2, 3, 4;
  return null;
end $$;
create trigger count_done_out after delete on ${jobs}.done
  referencing old table as changed for each statement execute function ${jobs}.count_done_out();
`;
