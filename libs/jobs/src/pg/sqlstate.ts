/** SQLSTATE of an error that PostgreSQL reported; `undefined` for anything else. */
export function sqlState(error: unknown): string | undefined {
  // Socket errors have a code too ("EPIPE"); only the server's messages have a severity.
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  return typeof code === "string" && typeof severity === "string" ? code : undefined;
}

/** The schema, a table, a column or a function is not there: not migrated, or migrated by an older release. */
export function isMissingSchema(error: unknown): boolean {
  const state = sqlState(error);
  return state === "42P01" || state === "3F000" || state === "42703" || state === "42883";
}

/** `insufficient_privilege`: the role lacks a right. */
export const isNotAllowed = (error: unknown): boolean => sqlState(error) === "42501";

/** `check_violation`, which is also how a partitioned table says that it has no partition for a row. */
export const isCheckViolation = (error: unknown): boolean => sqlState(error) === "23514";

/** `lock_not_available`: lock_timeout passed. */
export const isLockTimeout = (error: unknown): boolean => sqlState(error) === "55P03";

/**
 * A lock timeout that was for a row, which PostgreSQL names by its place, in any language. Without it may be either:
 * a table's lock, or that of a row for which others stood in line before.
 */
export const isRowLocked = (error: unknown): boolean =>
  isLockTimeout(error) && /\(\d+,\d+\)/.test(String((error as { where?: unknown }).where));

/** `in_failed_sql_transaction`: a statement before this one has failed. */
export const isInFailedTransaction = (error: unknown): boolean => sqlState(error) === "25P02";

/** `query_canceled`: statement_timeout passed. */
export const isStatementTimeout = (error: unknown): boolean => sqlState(error) === "57014";

/** `internal_error`: what it looked at in the catalogs changed under it. */
export const isInternal = (error: unknown): boolean => sqlState(error) === "XX000";

/** The same statement may go through when it is sent again: deadlock, serialization failure. */
export function isTransient(error: unknown): boolean {
  const state = sqlState(error);
  return state === "40P01" || state === "40001";
}

/** The connection is of no use any more: fatal server messages end the session. */
export function isFatal(error: unknown): boolean {
  const severity = (error as { severity?: unknown } | null)?.severity;
  // The word is in the server's language, the state is not.
  return severity === "FATAL" || severity === "PANIC" || ENDINGS.has(sqlState(error) ?? "");
}

/** Shut down, crashed, not up, idle for too long, in a transaction and out of it. */
const ENDINGS = new Set(["57P01", "57P02", "57P03", "57P05", "25P03"]);

/** A prepared statement is not there, or is of somebody else: another process answers than the one it was made on. */
export function isUnprepared(error: unknown): boolean {
  const state = sqlState(error);
  return state === "26000" || state === "42P05";
}

/** `read_only_sql_transaction`: a standby, or a server that became one. */
export const isReadOnly = (error: unknown): boolean => sqlState(error) === "25006";

/** The server understood us and the fault lies in the data or the statement: one row may have poisoned a batch. */
export function isDataError(error: unknown): boolean {
  const state = sqlState(error);
  return (
    state !== undefined &&
    (state.startsWith("22") || state.startsWith("23") || state.startsWith("54"))
  );
}

/** At connect: the database takes no connections for now (`allow_connections false`, being copied or dropped). */
export const isClosedForNow = (error: unknown): boolean => sqlState(error) === "55000";

/** The server answers but does not take writes: starting up, shutting down, a standby. */
export function isServerUnready(error: unknown): boolean {
  const state = sqlState(error);
  return (
    state !== undefined &&
    (state.startsWith("57P") || state.startsWith("08") || state === "25006" || state === "53300")
  );
}
