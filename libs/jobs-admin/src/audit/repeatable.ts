import { createHash } from "node:crypto";
import { DatabaseUnavailableError, mayBeDone } from "nestjs-pg-jobs";
import { ProblemException } from "../problem.js";
import { inputOf } from "../request/input.js";
import { type AnyRequest, type RawRequest, addressOf, rawOf } from "../request/raw-request.js";

const KEY = /^[\x21-\x7e]{1,255}$/;

/** The key under which a request may be repeated; undefined without. @throws ProblemException */
export function keyOf({ headers }: RawRequest): string | undefined {
  const key = headers["idempotency-key"];
  if (key === undefined) return undefined;
  if (typeof key === "string" && KEY.test(key)) return key;
  throw new ProblemException(
    400,
    "IDEMPOTENCY_KEY_INVALID",
    "Expected the header Idempotency-Key of 1 to 255 visible ASCII characters, found something else.",
  );
}

/** What tells this request from another one under the same key. */
export function askedOf(request: AnyRequest): string {
  const raw = rawOf(request);
  const { path, query } = addressOf(raw);
  const { body } = inputOf(request);
  return createHash("sha256")
    .update(`${raw.method} ${path}?${query}\n${JSON.stringify(body)}`)
    .digest("base64url");
}

export const reused = (): ProblemException =>
  new ProblemException(
    422,
    "IDEMPOTENCY_KEY_REUSED",
    "Expected the same request as the first under this Idempotency-Key, found another one. Take a new key for it.",
  );

export const underWay = (): ProblemException =>
  new ProblemException(
    409,
    "IDEMPOTENCY_KEY_BUSY",
    "The first request under this Idempotency-Key is still under way. Repeat this one later.",
  );

/** `ids`: of the jobs that it may have made. */
export const maybeDone = (ids?: unknown): ProblemException =>
  new ProblemException(
    409,
    "IDEMPOTENCY_OUTCOME_UNKNOWN",
    "What was asked under this Idempotency-Key may have been done: nobody knows how it ended. Look at the audit, and at the job, queue or schedule itself; to do it again, take another key.",
    ids === undefined ? {} : { ids },
  );

/** What is told of a deed that failed: one that the database was sent and did not answer, or not to the end, may have been done. */
export const unanswered = (error: unknown): unknown =>
  error instanceof DatabaseUnavailableError && mayBeDone(error)
    ? new ProblemException(
        503,
        "OUTCOME_UNKNOWN",
        "It may have been done: the connection to the database was lost before it answered, or what became of it could not be read. Look before you repeat it.",
      )
    : error;
