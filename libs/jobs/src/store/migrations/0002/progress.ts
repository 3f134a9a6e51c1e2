/**
 * What running jobs say of themselves: one row of progress a job, kept after its end; log lines by day.
 *
 * Storage: half of each page of `progress` is left for HOT; `job_log` is only inserted into, by day, as `done` is: the
 * defaults serve, for the same reasons.
 */
export const progress = (jobs: string) => `
-- changed once a second while a job runs: no other index, so that it stays HOT
create table ${jobs}.progress (
  job_id bigint not null,
  reported_at timestamptz not null,
  percent double precision not null check (percent between 0 and 100),
  attempt integer not null,
  queue_id integer not null,
  note text,
  primary key (job_id, queue_id)
) with (fillfactor = 50);

-- by the day of writing: a line may be older, when the database was away
create table ${jobs}.job_log (
  job_id bigint not null,
  written_at timestamptz not null default now(),
  logged_at timestamptz not null,
  attempt integer not null,
  line integer not null,
  queue_id integer not null,
  text text not null
) partition by range (written_at);
create index job_log_job on ${jobs}.job_log (job_id, attempt, line);
insert into ${jobs}.daily (parent) values ('job_log');
select ${jobs}.ensure_partitions(7);

insert into ${jobs}.chore (name, every) values ('progress', '1 hour');
`;
