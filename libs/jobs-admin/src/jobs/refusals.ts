import type { CancelAnswer, JobView, PayloadMatch, RequeueAnswer } from "nestjs-pg-jobs";
import { tooWeak } from "../auth/access.guard.js";
import type { AdminOperator } from "../auth/operator.js";
import type { Asking } from "../operation/operation.js";
import type { Payloads } from "../payloads/payloads.js";
import { REDACTED } from "../payloads/redaction.js";
import { ProblemException } from "../problem.js";

// Why a job was not changed, in the words of the caller.

export const unknownJob = (id: string) =>
  new ProblemException(404, "JOB_UNKNOWN", `There is no job ${id}.`);

/** A payload that is to be stored has nothing in it that is only shown. @throws ProblemException */
export function refusePlaceholder(payload: unknown, payloads: Payloads): void {
  const place = payloads.placeholderIn(payload);
  if (place === undefined) return;
  throw new ProblemException(
    400,
    "PAYLOAD_REDACTED",
    `Expected at ${place} what the handler is to have, found ${REDACTED}, which is shown instead of it. Say it anew, or requeue the job without a body.`,
  );
}

/** Who finds a job by a value in its payload knows the value. @throws ProblemException */
export function refuseSearch(
  match: PayloadMatch | undefined,
  { operator, payloads }: Asking,
): void {
  if (match === undefined) return;
  if (!payloads.visibleTo(operator))
    throw tooWeak(operator, payloads.role, "Look without payload, or ask somebody of that role.");
  refuseHidden(match.path, payloads);
}

function refuseHidden(path: string, payloads: Payloads): void {
  const place = payloads.hiddenOn(path);
  if (place !== undefined) throw hidden(path, place);
}

/** Whoever bounds by places of payloads sees in what waits what stands there. @throws ProblemException */
export function refusePlaces(
  paths: readonly string[],
  operator: AdminOperator,
  payloads: Payloads,
): void {
  if (paths.length > 0 && !payloads.visibleTo(operator))
    throw tooWeak(operator, payloads.role, "Bound it without keys, or ask somebody of that role.");
  for (const path of paths) refuseHidden(path, payloads);
}

/**
 * Whoever pauses, or resumes, the jobs that have a key at one of these places of their payloads sees by what becomes of
 * them whether they have it. @throws ProblemException
 */
export function refuseKey(
  key: string,
  paths: readonly string[],
  operator: AdminOperator,
  payloads: Payloads,
): void {
  if (!payloads.visibleTo(operator))
    throw tooWeak(operator, payloads.role, "Do it without key, or ask somebody of that role.");
  for (const path of paths) {
    const place = payloads.hiddenIn(path, key);
    if (place !== undefined) throw hidden(path, place);
  }
}

const hidden = (path: string, place: string): ProblemException =>
  new ProblemException(
    400,
    "PAYLOAD_REDACTED",
    `Expected a place of the payload that is shown, found ${path.slice(0, 200)}: ${place} is ${REDACTED}.`,
  );

export function notRequeued(
  id: string,
  answer: Exclude<RequeueAnswer, "queued">,
  job: JobView | null,
): ProblemException {
  const state = job?.state ?? "unknown";
  switch (answer) {
    case "unknown":
      return unknownJob(id);
    case "key-taken":
      return new ProblemException(
        409,
        "KEY_TAKEN",
        `Another unfinished job holds the key of job ${id}.`,
        { state, key: job?.key },
      );
    case "not-requeueable":
      return new ProblemException(
        409,
        "JOB_NOT_REQUEUEABLE",
        `Only a dead or cancelled job can be requeued; job ${id} is ${state}.`,
        { state },
      );
  }
}

export function notCancelled(
  id: string,
  answer: Exclude<CancelAnswer, "cancelled" | "requested">,
  job: JobView | null,
): ProblemException {
  if (answer === "unknown") return unknownJob(id);
  const state = job?.state ?? "unknown";
  return new ProblemException(
    409,
    "JOB_NOT_CANCELLABLE",
    `Only a job that waits or runs can be cancelled; job ${id} is ${state}.`,
    { state },
  );
}

/** It cannot be taken away. */
export const runs = (id: string): ProblemException =>
  new ProblemException(
    409,
    "JOB_RUNS",
    `Only a job that does not run can be deleted; job ${id} runs. Cancel it first, or wait.`,
    { state: "running" },
  );
