/**
 * Dead letters by age and by worker. While the table was empty both its indexes looked alike, and PostgreSQL 14 planned
 * lookups by id on this one: they would walk all letters of their queue. The predicate is always true; only statements
 * that ask for age, or for a worker, say it.
 */
export const deadLetters = (jobs: string): string => `
create index dead_age on ${jobs}.dead (queue_id, finished_at) where lane > -1;
-- whom letters name: the row of such a worker stays
create index dead_worker on ${jobs}.dead (worker) where lane > -1;
`;

export const withoutOldAges = (jobs: string): string => `
drop index ${jobs}.dead_finished;
`;
