// A transaction is known again by a setting that is its own: a commit or a rollback takes it away, whatever begins
// afterwards and on whichever process of a pooler; a savepoint that is made later does not. Nothing else is: to ask
// for the time or the number of a transaction takes a snapshot, after which its isolation level can not be chosen.

const NAME = "pg_jobs.transaction";

/** Marks the transaction, without a snapshot; `mark` is a text of letters and digits. */
export const markLocal = (mark: string): string => `set local ${NAME} = '${mark}'`;

/** SQL: marks it inside another statement. */
export const setMark = (mark: string): string => `set_config('${NAME}', ${mark}::text, true)`;

/** SQL: whether it has this mark. */
export const marked = (mark: string): string =>
  `coalesce(current_setting('${NAME}', true) = ${mark}::text, false)`;
