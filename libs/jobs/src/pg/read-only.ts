import { ConnectionLostError } from "./session.js";
import { isReadOnly } from "./sqlstate.js";

// A session leaves a server that takes no writes, since after a failover the way to the new one leads through a new
// connection. To whoever is told of it in the end it is no database that is away.

/** What the server says when it takes no writes; undefined for any other error. */
export function readOnlyWords(error: unknown): string | undefined {
  const said = error instanceof ConnectionLostError ? error.cause : error;
  return isReadOnly(said) ? `${(said as Error).message} (25006)` : undefined;
}

/** It may be a standby, or a database or a role that was set so. */
export const READ_ONLY_ADVICE =
  "connect to the primary, or set default_transaction_read_only to off";
