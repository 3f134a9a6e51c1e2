import type { CancelAnswer, JobView, RequeueAnswer } from "nestjs-pg-jobs";
import { tooWeak } from "../auth/access.guard.js";
import type { AdminOperator } from "../auth/operator.js";
import { reaches } from "../auth/roles.js";
import type { Payloads } from "../payloads/payloads.js";
import { REDACTED } from "../payloads/redaction.js";
import { ProblemException } from "../problem.js";

// Why a job was not changed, in the words of the caller.

export const unknownJob = (id: string) =>
  new ProblemException(404, "JOB_UNKNOWN", `There is no job ${id}.`);

/** Another payload is an admin's to say, and has nothing in it that is only shown. @throws ProblemException */
export function refuseEdit(payload: unknown, operator: AdminOperator, payloads: Payloads): void {
  if (!reaches(operator.role, "admin"))
    throw tooWeak(operator, "admin", "Requeue it without a body, or ask somebody of that role.");
  const place = payloads.placeholderIn(payload);
  if (place === undefined) return;
  throw new ProblemException(
    400,
    "PAYLOAD_REDACTED",
    `Expected at ${place} what the handler is to have, found ${REDACTED}, which is shown instead of it. Say it anew, or requeue the job without a body.`,
  );
}

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
