// Keys are waited for row by row, after a statement has locked its tables: with this condition, which is met before the
// first row, it waits for keys no longer than a parameter says, and for a table as long as its session does. The
// setting ends with the transaction.

/** A condition that always holds. Null leaves the setting as it is, which may be the caller's. */
export const waitsBriefly = (parameter: string): string =>
  `(select case when ${parameter}::text is null then true else set_config('lock_timeout', ${parameter}::text, true) is not null end)`;

/** Its parameter. */
export const briefValue = (lockMs: number | undefined): string | null =>
  lockMs === undefined ? null : String(lockMs);
