/**
 * Windows of keys, and what becomes of a call whose key is held. `enqueue_one` is the one place that decides it:
 * the library's calls with a window or `onConflict` go through it, and so does the SQL function `enqueue`.
 *
 * Storage: `dedup` has the defaults. A window that is taken anew changes `expires_at`, which is in an index: no room on the
 * page would make that HOT. It is looked up by its key, never walked, and what is over goes by the index of its time.
 */
export const keys = (jobs: string): string => `
-- who holds a key until when, finished or not; only for calls with a window
create table ${jobs}.dedup (
  queue_id integer not null,
  kind text collate "C" not null,
  key text collate "C" not null,
  job_id bigint not null,
  expires_at timestamptz not null,
  primary key (queue_id, kind, key)
);
create index dedup_expired on ${jobs}.dedup (expires_at);
insert into ${jobs}.chore (name, every) values ('windows', '10 minutes');

${enqueueOne(jobs)}`;

/** `replacing`: what else becomes of a job that gets another payload or time. `lasts`: whether a window does. */
export const enqueueOne = (
  jobs: string,
  { verb = "create", replacing = "", lasts = "d.expires_at > moment" } = {},
): string => `-- One job under its rules; outcome is created, replaced or kept, id that of the job that has the key then.
-- Locks are taken by key: first its row of dedup, then that of job. Whoever sends several jobs sends them in
-- the order of their keys, so that two cannot wait for one another; calls without window take the second only.
-- Each statement sees what was committed before it: this needs "volatile", and read committed around it. Under one
-- snapshot for a whole transaction a look may find a holder that is over by now. There it is tried first to insert:
-- that sees what holds a key today, and fails with 40001 when the snapshot does not show it.
${verb} function ${jobs}.enqueue_one(
  in_queue integer, fresh bigint, in_lane smallint, of_kind text, due timestamptz, max_attempts smallint,
  limit_ms bigint, under_key text, content jsonb, key_window interval, on_conflict text,
  out id bigint, out outcome text)
language plpgsql volatile set search_path = pg_catalog, pg_temp
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  moment constant timestamptz := clock_timestamp();
  holder bigint;
  reserved bigint;
begin
  for round in 1..50 loop
    if under_key is not null
      and (round > 1 or current_setting('transaction_isolation') not in ('repeatable read', 'serializable')) then
      -- before the job: when its window is seen, the job was committed with it and is seen after it
      if key_window is not null then
        select d.job_id into reserved from ${jobs}.dedup d
        where d.queue_id = in_queue and d.kind = of_kind and d.key = under_key and ${lasts};
      end if;
      holder := null;
      if on_conflict <> 'keep' then
        -- a worker of the first release may have put back a job that was to be cancelled: its replacement is not
        update ${jobs}.job j
        set cancel_at = null,
          payload = case when on_conflict = 'replace-time' then j.payload else content end,
          run_at = case when on_conflict = 'replace-payload' then j.run_at else due end,
          attempts = case when on_conflict = 'replace' then max_attempts else j.attempts end,
          timeout_ms = case when on_conflict = 'replace' then limit_ms else j.timeout_ms end${replacing}
        where j.queue_id = in_queue and j.kind = of_kind and j.key = under_key and j.lease_until is null
        returning j.id into holder;
      end if;
      if holder is not null then
        outcome := 'replaced';
      else
        select j.id into holder from ${jobs}.job j
        where j.queue_id = in_queue and j.kind = of_kind and j.key = under_key;
        holder := coalesce(holder, reserved);
        outcome := 'kept';
      end if;
      if holder is not null then
        id := holder; -- fresh itself, when it was sent before and the answer was lost
        return;
      end if;
    end if;

    -- not before it is needed: a key that is held costs no id
    fresh := coalesce(fresh, nextval('${jobs}.job_id'));
    if key_window is not null then
      insert into ${jobs}.dedup as d (queue_id, kind, key, job_id, expires_at)
      values (in_queue, of_kind, under_key, fresh, moment + key_window)
      on conflict (queue_id, kind, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at
      where d.expires_at <= moment;
      continue when not found; -- reserved by another meanwhile
    end if;
    insert into ${jobs}.job (id, queue_id, lane, kind, run_at, attempts, timeout_ms, key, payload)
    values (fresh, in_queue, in_lane, of_kind, due, max_attempts, limit_ms, under_key, content)
    on conflict do nothing;
    if found then
      id := fresh;
      outcome := 'created';
      return;
    end if;

    -- sent before, and run meanwhile
    if exists (select 1 from ${jobs}.done d where d.id = fresh and d.queue_id = in_queue)
      or exists (select 1 from ${jobs}.dead d where d.id = fresh and d.queue_id = in_queue) then
      id := fresh;
      outcome := 'created';
      return;
    end if;
    if key_window is not null then
      delete from ${jobs}.dedup d
      where d.queue_id = in_queue and d.kind = of_kind and d.key = under_key and d.job_id = fresh;
    end if;
  end loop;
  raise exception 'the fresh job id % is in use: the sequence "job_id" has gone back', fresh using errcode = '23505';
end $$;
`;
