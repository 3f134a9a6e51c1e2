/**
 * What running jobs are told: a row for each cancel that was requested, under the id of the worker that holds the job.
 *
 * Storage: inserted, read and deleted within a second, never updated: full pages and the defaults are right. The key
 * begins with the worker: each process reads its own rows by it, and nothing else is indexed.
 */
export const control = (jobs: string): string => `
create table ${jobs}.control (
  worker integer not null,
  queue_id integer not null,
  job_id bigint not null,
  attempt integer not null,
  primary key (worker, queue_id, job_id, attempt)
);

-- of attempts that were over before their process has read it, or whose process is gone
insert into ${jobs}.chore (name, every) values ('control', '10 minutes');
`;
