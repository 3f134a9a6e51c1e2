/**
 * The door for every client and language: jobs of the caller's transaction, by SQL. The checks are those of
 * `job/enqueue-options.ts`; functions run with the rights of their caller.
 */
export const sql = (jobs: string): string => `
-- raises unless it may name a kind or a queue
create function ${jobs}.check_name(what text, name text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if name is null or length(name) not between 1 and 64 or name ~ '[\\u0001-\\u001f\\u007f-\\u009f]' then
    raise exception '%: expected 1..64 characters without control characters, found %', what,
      case when name is null then 'null' when length(name) > 40 then length(name) || ' characters' else to_json(name)::text end
      using errcode = 'invalid_parameter_value', hint = 'Use the name that the handler is registered for.';
  end if;
end $$;

-- Makes a queue, and the lane of a kind and priority in it; what is there stays as it is.
create function ${jobs}.declare(queue text, kind text, priority integer default 0) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  of_queue integer;
  next_lane integer;
begin
  perform ${jobs}.check_name('queue', declare.queue);
  perform ${jobs}.check_name('kind', declare.kind);
  if declare.priority is null or declare.priority not between -100 and 100 then
    raise exception 'priority: expected an integer -100..100, found %', coalesce(declare.priority::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave it out for 0.';
  end if;
  -- looked up before it is made: an insert that conflicts burns an id
  loop
    select q.id into of_queue from ${jobs}.queue q where q.name = declare.queue;
    exit when found;
    insert into ${jobs}.queue (name) values (declare.queue) on conflict do nothing;
  end loop;
  if exists (select 1 from ${jobs}.lane l
    where l.queue_id = of_queue and l.kind = declare.kind and l.priority = declare.priority) then
    return;
  end if;
  perform 1 from ${jobs}.queue q where q.id = of_queue for update;
  if exists (select 1 from ${jobs}.lane l
    where l.queue_id = of_queue and l.kind = declare.kind and l.priority = declare.priority) then
    return;
  end if;
  select coalesce(max(l.id) + 1, 0) into next_lane from ${jobs}.lane l where l.queue_id = of_queue;
  if next_lane > 9999 then
    raise exception 'kind and priority: expected at most 10000 different pairs in queue %, found all of them used',
      to_json(declare.queue)
      using errcode = 'invalid_parameter_value', hint = 'Do not put data into the names of kinds: that is what '
        'payloads and keys are for. Use a priority that the kind has already, or another queue.';
  end if;
  insert into ${jobs}.lane (queue_id, id, kind, priority) values (of_queue, next_lane, declare.kind, declare.priority);
  update ${jobs}.queue set version = version + 1 where id = of_queue;
  perform pg_notify(left(trim(both '"' from '${jobs}') || ':wake', 63), of_queue || '!');
end $$;

-- A hint for workers that wait: to be called after the commit, never inside of it.
create function ${jobs}.wake(queue text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  of_queue integer;
begin
  select q.id into of_queue from ${jobs}.queue q where q.name = wake.queue;
  if not found then
    raise exception 'queue: expected one that exists, found %', coalesce(to_json(wake.queue)::text, 'null')
      using errcode = 'undefined_object', hint = 'Check its spelling: select name from ${jobs}.queue';
  end if;
  perform pg_notify(left(trim(both '"' from '${jobs}') || ':wake', 63), of_queue::text);
end $$;

-- Enqueues a job in the caller's transaction; with a key that is held, answers the job that holds it.
create function ${jobs}.enqueue(
  kind text, payload jsonb default '{}', queue text default 'default', run_at timestamptz default statement_timestamp(),
  priority integer default 0, key text default null, key_window interval default null,
  on_conflict text default 'keep', attempts integer default null)
returns table (id text, deduplicated boolean)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  of_queue integer;
  of_lane smallint;
  problem text;
  advice text;
  bytes integer;
  placed record;
begin
  perform ${jobs}.check_name('kind', enqueue.kind);
  perform ${jobs}.check_name('queue', enqueue.queue);
  if enqueue.payload is null then
    problem := 'payload: expected jsonb, found null';
    advice := 'Leave it out for {}, or send JSON''s null as ''null''::jsonb.';
  elsif enqueue.run_at is null or enqueue.run_at < '1970-01-01Z' or enqueue.run_at >= '10000-01-01Z' then
    problem := 'run_at: expected a time in the years 1970..9999, found ' || coalesce(enqueue.run_at::text, 'null');
    advice := 'Leave it out for now, the time of the call.';
  elsif enqueue.priority is null or enqueue.priority not between -100 and 100 then
    problem := 'priority: expected an integer -100..100, found ' || coalesce(enqueue.priority::text, 'null');
    advice := 'Leave it out for 0; higher runs first.';
  elsif enqueue.attempts not between 1 and 1000 then
    problem := 'attempts: expected an integer 1..1000, found ' || enqueue.attempts;
    advice := 'Leave it out for what the handler says.';
  elsif length(enqueue.key) not between 1 and 512 then
    problem := format('key: expected 1..512 characters, found %s characters', length(enqueue.key));
    advice := 'Leave it out, or use null, for a job without a key.';
  elsif enqueue.key is null and enqueue.key_window is not null then
    problem := 'key_window: expected a key beside it, found none';
    advice := 'A window says for how long a key is unique: give the key, or leave the window out.';
  elsif extract(epoch from enqueue.key_window) not between 0.001 and 315576000 then
    problem := 'key_window: expected more than 0, at most 10 years, found ' || enqueue.key_window;
    advice := 'Leave it out for a key that is unique while its job is queued or running.';
  elsif enqueue.on_conflict is null or enqueue.on_conflict not in ('keep', 'replace-payload', 'replace-time', 'replace') then
    problem := 'on_conflict: expected ''keep'', ''replace-payload'', ''replace-time'' or ''replace'', found '
      || coalesce(to_json(left(enqueue.on_conflict, 40))::text, 'null');
    advice := 'Leave it out for ''keep''.';
  elsif enqueue.key is null and enqueue.on_conflict <> 'keep' then
    problem := 'on_conflict: expected a key beside it, found none';
    advice := 'Without a key nothing is in conflict: give the key, or leave on_conflict out.';
  else
    bytes := octet_length(enqueue.payload::text);
    if bytes > 1048576 then
      problem := format('payload: expected at most 1048576 bytes, found %s', bytes);
      advice := 'Store the data elsewhere and send a reference.';
    end if;
  end if;
  if problem is not null then
    raise exception '%', problem using errcode = 'invalid_parameter_value', hint = advice;
  end if;

  select q.id into of_queue from ${jobs}.queue q where q.name = enqueue.queue;
  select l.id into of_lane from ${jobs}.lane l
  where l.queue_id = of_queue and l.kind = enqueue.kind and l.priority = enqueue.priority;
  if not found then
    if not exists (select 1 from ${jobs}.lane l where l.queue_id = of_queue and l.kind = enqueue.kind) then
      raise exception '%', case
          when of_queue is null then format('queue: expected one that is known, found %s', to_json(enqueue.queue))
          else format('kind: expected one that is known in queue %s, found %s', to_json(enqueue.queue), to_json(enqueue.kind)) end
        using errcode = 'undefined_object',
          hint = format('Check the spelling. A new one is declared once: select ${jobs}.declare(%L, %L)', enqueue.queue, enqueue.kind);
    end if;
    perform ${jobs}.declare(enqueue.queue, enqueue.kind, enqueue.priority);
    select l.id into of_lane from ${jobs}.lane l
    where l.queue_id = of_queue and l.kind = enqueue.kind and l.priority = enqueue.priority;
  end if;

  select one.id, one.outcome into placed from ${jobs}.enqueue_one(
    of_queue, null, of_lane, enqueue.kind, enqueue.run_at, enqueue.attempts::smallint, null,
    enqueue.key, enqueue.payload, enqueue.key_window, enqueue.on_conflict) one;
  id := of_queue || '-' || placed.id;
  deduplicated := placed.outcome <> 'created';
  return next;
end $$;
`;
