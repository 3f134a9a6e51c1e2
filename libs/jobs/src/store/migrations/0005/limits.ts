/**
 * What bounds the jobs of a queue: how many of them run at once in all processes, and how many start in a window. A rule is
 * for the whole queue, or for one of its kinds; with a path, for each value that payloads have there.
 *
 * Storage: `limit_rule`, `limit_said`, `limit_gate`, `key_pause` are few rows that hardly ever change. `slot` is inserted into and deleted
 * from with each job of a limited queue, never updated: full pages and the defaults are right; claims count it from the
 * oldest slot that was in use on, so that what a held snapshot keeps of it is not walked. `parked` is the same for jobs that
 * wait for their key. `bucket` is updated in place with each claim: half of each page is left for HOT.
 */
export const limits = (jobs: string): string => `
-- claims of such a queue go through claim_limited
alter table ${jobs}.queue add column limited boolean not null default false;

create table ${jobs}.limit_rule (
  queue_id integer not null,
  id smallint not null check (id > 0),
  -- '' is all kinds of the queue
  kind text collate "C" not null default '',
  -- where in the payload the key stands, its parts between dots; '' is all jobs together
  key_path text collate "C" not null default '',
  -- so many at once
  max integer check (max >= 0),
  -- so many starts in any window of so many ms
  rate integer check (rate > 0),
  rate_ms bigint check (rate_ms > 0),
  said_at timestamptz not null default now(),
  said_by text,
  said_why text,
  primary key (queue_id, id),
  unique (queue_id, kind, key_path),
  check (max is not null or rate is not null),
  check ((rate is null) = (rate_ms is null))
);

-- what the code of workers last said of a queue or kind: a call's change holds until code says something else
create table ${jobs}.limit_said (
  queue_id integer not null,
  kind text collate "C" not null default '',
  declared text not null,
  service text collate "C" not null,
  primary key (queue_id, kind)
);

-- closed from the first rule on until what runs without a slot is known: claims that do not know of it are over by then
create table ${jobs}.limit_gate (
  queue_id integer primary key,
  opened boolean not null default false,
  -- null: the first sweep that sees the rule says when
  opens_at timestamptz
);

-- attempts that are current under a rule
create sequence ${jobs}.slot_order;
create table ${jobs}.slot (
  queue_id integer not null,
  seq bigint not null default nextval('${jobs}.slot_order'),
  limit_id smallint not null,
  key text collate "C" not null,
  job_id bigint not null,
  attempt integer not null,
  worker integer not null,
  primary key (queue_id, seq)
);
create index slot_job on ${jobs}.slot (queue_id, job_id);

-- jobs whose key is at its limit: in their lane + 10000, out of the way of the others
create table ${jobs}.parked (
  queue_id integer not null,
  job_id bigint not null,
  limit_id smallint not null,
  key text collate "C" not null,
  priority smallint not null,
  run_at timestamptz not null,
  primary key (queue_id, job_id)
);
create index parked_next on ${jobs}.parked (queue_id, limit_id, key, priority desc, run_at, job_id);

-- what a rate has given out: from then on, in microseconds, it has all of its burst again
create table ${jobs}.bucket (
  queue_id integer not null,
  limit_id smallint not null,
  key text collate "C" not null,
  full_at bigint not null,
  -- when a parked job of the key may start
  wake_at timestamptz,
  primary key (queue_id, limit_id, key)
) with (fillfactor = 50);
create index bucket_wake on ${jobs}.bucket (queue_id, wake_at) where wake_at is not null;

create table ${jobs}.key_pause (
  queue_id integer not null,
  limit_id smallint not null,
  key text collate "C" not null,
  paused_at timestamptz not null default now(),
  paused_until timestamptz,
  paused_by text,
  paused_why text,
  primary key (queue_id, limit_id, key)
);
`;
