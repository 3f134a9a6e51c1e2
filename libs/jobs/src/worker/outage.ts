import { READ_ONLY_ADVICE, readOnlyWords } from "../pg/read-only.js";
import { ConnectionLostError, LoopBlockedError } from "../pg/session.js";
import { isLockTimeout, isMissingSchema, isNotAllowed } from "../pg/sqlstate.js";
import { SchemaOutdatedError } from "../store/store.js";
import { monotonic } from "./held.js";

const COMPLAIN_EVERY_MS = 10_000;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2_000;

/**
 * Patience with a database that is away, or has not our schema: pauses that grow to 2 s, and one word in the log
 * every 10 s. Whatever failed, and whoever was first to meet it: a schema that is gone, or closed to us, is called so.
 */
export class Outage {
  #complainedAt = Number.NEGATIVE_INFINITY;
  /** Told apart: only somebody who migrates, or grants, can mend that. */
  #complainedOfSchemaAt = Number.NEGATIVE_INFINITY;
  #pauseMs = 0;

  constructor(private readonly log: (message: string, params: { cause: string }) => void) {}

  /** Something failed because of it: says so, if it has not for a while, and resolves when it is time to try again. */
  async met(message: string, error: unknown): Promise<void> {
    this.complain(message, error);
    this.#pauseMs = Math.min(Math.max(FIRST_PAUSE_MS, this.#pauseMs * 2), MAX_PAUSE_MS);
    await new Promise<void>((resolve) => setTimeout(resolve, this.#pauseMs).unref());
  }

  complain(message: string, error: unknown): void {
    const now = monotonic();
    const schema = schemaProblem(error);
    const last = schema === undefined ? this.#complainedAt : this.#complainedOfSchemaAt;
    if (now - last < COMPLAIN_EVERY_MS) return;
    if (schema === undefined) this.#complainedAt = now;
    else this.#complainedOfSchemaAt = now;
    this.log(schema ?? outageIn(error) ?? message, { cause: causeOf(error) });
  }

  /** The database has answered. */
  over(): void {
    this.#pauseMs = 0;
  }
}

/** Why a statement that any worker can send was not answered. */
export const unanswered = (error: unknown): string =>
  isLockTimeout(error)
    ? "another session has locked what a worker needs: end its transaction, or wait for it"
    : "the database is away";

function schemaProblem(error: unknown): string | undefined {
  if (error instanceof SchemaOutdatedError) return 'the schema is not ready: run "pg-jobs migrate"';
  if (isMissingSchema(error))
    return 'the schema is gone, or of another release: run "pg-jobs migrate"';
  if (isNotAllowed(error))
    return "the role of the connection lacks a right: grant it, docs/roles.md says how";
  return undefined;
}

function outageIn(error: unknown): string | undefined {
  if (error instanceof ConnectionLostError && error.cause instanceof LoopBlockedError)
    return "this process was too busy to hear the database";
  return readOnlyWords(error) && `the database takes no writes: ${READ_ONLY_ADVICE}`;
}

/** What lies below an error, in words for a log. */
export function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message || error.cause.name : error.message;
}
