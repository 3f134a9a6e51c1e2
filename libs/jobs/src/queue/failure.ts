import {
  DatabaseRefusedError,
  DatabaseTooSlowError,
  DatabaseUnavailableError,
  EnqueueOutcomeUnknownError,
  JobsError,
  KeyLockedError,
  LanesUsedUpError,
  NotInEncodingError,
  SchemaNotReadyError,
  atIndex,
} from "../job/errors.js";
import { formatJobId } from "../job/job-id.js";
import { ConnectionRefusedError } from "../pg/connect.js";
import { type Lacking, lacking } from "../pg/encoding.js";
import { READ_ONLY_ADVICE, readOnlyWords } from "../pg/read-only.js";
import { ConnectionLostError, SessionClosedError } from "../pg/session.js";
import {
  isLockTimeout,
  isNotAllowed,
  isRowLocked,
  isServerUnready,
  isStatementTimeout,
} from "../pg/sqlstate.js";
import { NoLaneLeftError } from "../store/queues/lanes.js";
import { SchemaOutdatedError, isOutcomeUnknown, isUnavailable } from "../store/store.js";
import { StaysUnknownError } from "./insert.js";

/** What a call does, and so what its failure means. */
export type Doing =
  | "read"
  | "enqueue"
  | "requeue"
  | "cancel"
  | "delete"
  | "bulk"
  | "audit"
  | "schedule"
  | "unsubscribe"
  | "pause"
  | "limit"
  | "resume"
  | "migrate";

/** A job that a call means to create. */
export interface Meant {
  queueId: number;
  job: { id: string; kind: string; key: string | null; payload: string };
}

/** What a call was to do is done; what it was to answer cannot be read. */
class UnreadError extends Error {
  override readonly name = "UnreadError";
}

/** What a call answers once that is committed which it was to do: a failure from here on is none of that. */
export async function done<T>(answer: () => Promise<T>): Promise<T> {
  try {
    return await answer();
  } catch (error) {
    if (error instanceof JobsError) throw error;
    throw new UnreadError("what was done cannot be read", { cause: error });
  }
}

/** Whether what a call was to do may be done, though it has failed so; false: it is not. */
export function mayBeDone(error: unknown): boolean {
  if (!(error instanceof JobsError)) return true;
  if (error instanceof DatabaseUnavailableError)
    return isOutcomeUnknown(error.cause) || error.cause instanceof UnreadError;
  return error instanceof EnqueueOutcomeUnknownError;
}

/** What a caller gets to see of a failure below; `jobs` are those that the call meant to create. */
export function callerError(
  error: unknown,
  schema: string,
  doing: Doing,
  jobs: readonly Meant[] = [],
): unknown {
  if (error instanceof JobsError) return error;
  if (error instanceof UnreadError) {
    const found = `none when it was asked how that stands which this call has done (${(error.cause as Error).message})`;
    return new DatabaseUnavailableError(found, "It is done: look again later.", { cause: error });
  }
  if (error instanceof SchemaOutdatedError) {
    const { found, needed, feature } = error;
    return new SchemaNotReadyError(schema, found === 0 ? null : found, needed, feature);
  }
  if (error instanceof StaysUnknownError) {
    return new EnqueueOutcomeUnknownError(
      jobs.map((one) => formatJobId(one.queueId, one.job.id)),
      { cause: error.cause },
    );
  }
  if (error instanceof ConnectionRefusedError) {
    const found = `that it cannot be connected to: ${error.message}`;
    return new DatabaseUnavailableError(found, `${outcomeOf(doing, false)}Then repeat the call.`, {
      cause: error,
    });
  }
  if (isUnavailable(error) && (error as Error).cause instanceof SessionClosedError) {
    const consequence = `${outcomeOf(doing, false)}Call it before app.close().`;
    return new DatabaseUnavailableError("that the app is closed", consequence, { cause: error });
  }
  const readOnly = readOnlyWords(error);
  if (readOnly !== undefined) {
    const ours = error instanceof ConnectionLostError;
    const found = ours ? "that it takes no writes" : "a transaction that takes no writes";
    const advice = ours
      ? `After a failover repeat the call; else ${READ_ONLY_ADVICE}.`
      : `Begin the transaction read write; or ${READ_ONLY_ADVICE}.`;
    return new DatabaseUnavailableError(
      `${found}: ${readOnly}`,
      `${outcomeOf(doing, false)}${advice}`,
      { cause: error },
    );
  }
  if (isOutcomeUnknown(error) || isUnavailable(error) || isServerUnready(error)) {
    const consequence = `${outcomeOf(doing, isOutcomeUnknown(error))}Repeat the call.`;
    return new DatabaseUnavailableError(foundInstead(error), consequence, { cause: error });
  }
  const lacks = lacking(error);
  if (lacks) {
    const consequence = outcomeOf(doing, false);
    return notInEncoding(lacks, jobs, consequence, { cause: error });
  }
  if (error instanceof NoLaneLeftError) {
    const { index } = error as { index?: number };
    const usedUp = new LanesUsedUpError({ cause: error });
    return index === undefined ? usedUp : atIndex(usedUp, index);
  }
  if (isNotAllowed(error)) {
    const consequence = `${outcomeOf(doing, false)}Grant it, then repeat the call.`;
    return new DatabaseRefusedError(schema, (error as Error).message, consequence, {
      cause: error,
    });
  }
  if (isLockTimeout(error)) {
    const keyed = isRowLocked(error) && jobs.find(({ job }) => job.key !== null);
    if (keyed) return new KeyLockedError(keyed.job.kind, { cause: error });
    const found = "that another open transaction, or a migration, has locked what it needs";
    const consequence = `${outcomeOf(doing, false)}End that transaction sooner, or repeat the call.`;
    return new DatabaseUnavailableError(found, consequence, { cause: error });
  }
  if (isStatementTimeout(error)) {
    const advice = doing === "read" || doing === "bulk" ? "Narrow the filter, or repeat" : "Repeat";
    const consequence = `${outcomeOf(doing, false)}${advice} the call when the database has less to do.`;
    return new DatabaseTooSlowError((error as Error).message, consequence, { cause: error });
  }
  return error;
}

/** Why the database, which answers, does not let the tables be read; undefined when it does not answer. */
export function refusal(error: unknown): "locked" | "slow" | "other" | undefined {
  if (error instanceof DatabaseUnavailableError)
    return isLockTimeout(error.cause) ? "locked" : undefined;
  return error instanceof DatabaseTooSlowError ? "slow" : "other";
}

function notInEncoding(
  { encoding, character }: Lacking,
  jobs: readonly Meant[],
  consequence: string,
  options: ErrorOptions,
): NotInEncodingError {
  const job = (jobs.find((one) => whereIn(one, character)) ?? jobs[0])?.job;
  const what = job === undefined ? "what is sent" : `this job of kind "${job.kind}"`;
  const where = job && whereIn({ job }, character);
  const found = where === undefined ? "" : ` in its ${where}`;
  return new NotInEncodingError(what, encoding, character, found, consequence, options);
}

function whereIn({ job }: Pick<Meant, "job">, character: string | undefined): string | undefined {
  if (character === undefined) return undefined;
  const parts = { kind: job.kind, key: job.key ?? "", payload: job.payload };
  return Object.entries(parts).find(([, text]) => text.includes(character))?.[0];
}

/** Names the item of a call of many that the encoding of the database is too narrow for. */
export const atUnfitItem =
  (all: readonly Pick<Meant, "job">[]) =>
  (error: unknown): never => {
    if (!(error instanceof NotInEncodingError)) throw error;
    const index = all.findIndex((one) => whereIn(one, error.character) !== undefined);
    throw index === -1 ? error : atIndex(error, index);
  };

function outcomeOf(doing: Doing, unknown: boolean): string {
  if (doing === "enqueue") return "No job was created. ";
  const done = { requeue: "requeued", cancel: "cancelled", delete: "deleted" }[doing as string];
  if (done === undefined) return "";
  return unknown
    ? `Whether the job was ${done} is not known: jobs.get(id) tells. `
    : `The job was not ${done}. `;
}

/** What the system says of the network names a host and a port, never a password; others may say anything. */
function foundInstead(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  const { syscall, code } = (cause ?? {}) as { syscall?: unknown; code?: unknown };
  if (typeof syscall !== "string") return "none";
  const advice = code === "ENOTFOUND" ? "; check the host of the connection" : "";
  return `none (${(cause as Error).message}${advice})`;
}
