import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  Logger,
} from "@nestjs/common";
import { HttpAdapterHost } from "@nestjs/core";
import {
  EnqueueOutcomeUnknownError,
  type ErrorCode,
  JobsError,
  OptionsError,
} from "nestjs-pg-jobs";
import { STATUS_CODES } from "node:http";
import { type Problem, ProblemException, problem, told } from "./problem.js";
import { withoutTraces } from "./without-traces.js";

/** What the caller can do something about; every other error is ours. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  CURSOR_INVALID: 400,
  JOB_ID_INVALID: 400,
  NOT_IN_ENCODING: 400,
  OPTIONS_INVALID: 400,
  PAYLOAD_NOT_JSON: 400,
  BULK_UNKNOWN: 404,
  KIND_UNKNOWN: 404,
  QUEUE_UNKNOWN: 404,
  SCHEDULE_UNKNOWN: 404,
  BULK_COUNT_DIFFERS: 409,
  JOB_LOCKED: 409,
  NO_WORKER: 409,
  PAYLOAD_TOO_LARGE: 413,
  BULK_TOO_LARGE: 422,
  DATABASE_UNAVAILABLE: 503,
  DATABASE_REFUSED: 503,
  DATABASE_TOO_SLOW: 503,
  ENQUEUE_OUTCOME_UNKNOWN: 503,
  SCHEMA_NOT_READY: 503,
  SEARCHES_BUSY: 503,
};

/** Who repeats these may do it twice. */
const MAYBE_DONE: ReadonlySet<string> = new Set(["ENQUEUE_OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"]);

/** Answers every error as an RFC 9457 problem. For the whole app: `{ provide: APP_FILTER, useClass: ProblemFilter }`. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  readonly #logger = new Logger("JobsAdmin");

  constructor(private readonly host: HttpAdapterHost) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const { httpAdapter } = this.host;
    const response: unknown = host.switchToHttp().getResponse();
    if (httpAdapter.isHeadersSent(response)) {
      httpAdapter.end(response);
      return;
    }
    const body = ownBody(error);
    if (body) {
      httpAdapter.reply(response, body, (error as HttpException).getStatus());
      return;
    }
    const answer = problemOf(error);
    if (answer.code === "INTERNAL") this.#logger.error("Request failed", error);
    else if (answer.status >= 500) this.#logger.warn("Request failed", { code: answer.code });
    withoutTraces(httpAdapter, response);
    httpAdapter.setHeader(response, "content-type", "application/problem+json");
    if (answer.status === 503 && !MAYBE_DONE.has(answer.code))
      httpAdapter.setHeader(response, "retry-after", "5");
    httpAdapter.reply(response, answer, answer.status);
  }
}

/** What is answered for an error. */
export function problemOf(error: unknown): Problem {
  if (error instanceof ProblemException)
    return problem(error.getStatus(), error.code, error.message, error.more);
  if (error instanceof JobsError && STATUS[error.code])
    return problem(STATUS[error.code]!, error.code, detailOf(error), moreOf(error));
  if (error instanceof HttpException) {
    const status = error.getStatus();
    return problem(status, codeOf(status), status < 500 ? error.message : "The request failed.");
  }
  const status = statusOf(error);
  if (status !== undefined) return problem(status, codeOf(status), (error as Error).message);
  return problem(500, "INTERNAL", "The request failed; the log of the server says why.");
}

/** Its message is for those who call it in code. */
function detailOf(error: JobsError): string {
  if (error.code === "DATABASE_UNAVAILABLE")
    return "The database does not answer; repeat the request later.";
  if (error instanceof OptionsError) return told(error.problems).detail;
  return error.message.replace(/jobs\.(queues|schedules)\.list\(\)/, "GET $1");
}

function moreOf(error: JobsError): Record<string, unknown> {
  if (error instanceof EnqueueOutcomeUnknownError) return { ids: error.ids };
  return error instanceof OptionsError ? { problems: told(error.problems).problems } : {};
}

/** What the body parser of Express, or Fastify, says of a request. */
function statusOf(error: unknown): number | undefined {
  const { status, statusCode, expose, code } = (error ?? {}) as Record<string, unknown>;
  const fastify = typeof code === "string" && code.startsWith("FST_ERR_");
  const found = expose === true ? status : fastify ? statusCode : undefined;
  return typeof found === "number" && found >= 400 && found < 500 ? found : undefined;
}

/** `404` → `NOT_FOUND`. */
const codeOf = (status: number) =>
  (STATUS_CODES[status] ?? "Error").toUpperCase().replaceAll(/[^A-Z]+/g, "_");

/** An exception with a body of its own keeps it, as Terminus' health check does. */
function ownBody(error: unknown): object | undefined {
  if (!(error instanceof HttpException) || error instanceof ProblemException) return undefined;
  const body = error.getResponse();
  return typeof body === "object" && !("statusCode" in body) ? body : undefined;
}
