import { type ArgumentsHost, Catch, HttpException, Logger } from "@nestjs/common";
import { BaseExceptionFilter } from "@nestjs/core";
import type { Response } from "express";
import { JobsError } from "nestjs-pg-jobs";

/** Errors of `nestjs-pg-jobs` that pass when the call is repeated later. */
const PASSING = new Set([
  "DATABASE_REFUSED",
  "DATABASE_TOO_SLOW",
  "DATABASE_UNAVAILABLE",
  "ENQUEUE_OUTCOME_UNKNOWN",
  "KEY_LOCKED",
  "LANE_LOCKED",
  "SCHEMA_NOT_READY",
]);
/** What `pg` and the system say when the server is away, full or stopping. */
const AWAY = /^(ECONN\w+|ETIMEDOUT|ENOTFOUND|EPIPE|EAI_AGAIN|EHOSTUNREACH|08\w{3}|57P0\d|53300)$/;
const AWAY_WITHOUT_CODE = /^(Connection terminated|timeout exceeded when trying to connect)/i;

/** What was sent cannot be a payload, though it has the shape that is asked for. */
const UNFIT: Record<string, number> = {
  NOT_IN_ENCODING: 400,
  PAYLOAD_INVALID: 400,
  PAYLOAD_NOT_JSON: 400,
  PAYLOAD_TOO_LARGE: 413,
};

const QUIET_MS = 10_000;

/**
 * A database that is away is nobody's bug: 503 with a code, not 500; nor is what a caller has sent that no job can
 * carry: 400. All else is Nest's to answer.
 */
@Catch()
export class JobsErrorFilter extends BaseExceptionFilter {
  readonly #logger = new Logger(JobsErrorFilter.name);
  #quietUntil = 0;

  override catch(error: unknown, host: ArgumentsHost): void {
    const code = codeOf(error);
    const response = host.switchToHttp().getResponse<Response>();
    if (!code || response.headersSent) {
      // oxlint-disable-next-line promise/valid-params -- an exception filter, no promise
      super.catch(unfit(error) ?? error, host);
      return;
    }
    this.#tell(code, error as Error);
    const problem = { type: "about:blank", title: "Service Unavailable", status: 503, code };
    response
      .status(503)
      .set({ "content-type": "application/problem+json", "retry-after": "5" })
      .send(JSON.stringify({ ...problem, detail: "The database is away; try again later." }));
  }

  /** One line for all requests of a while. */
  #tell(code: string, { message }: { message?: string }): void {
    if (performance.now() < this.#quietUntil) return;
    this.#quietUntil = performance.now() + QUIET_MS;
    this.#logger.warn("Requests are answered 503", { code, reason: message });
  }
}

function unfit(error: unknown): HttpException | undefined {
  const status = error instanceof JobsError ? UNFIT[error.code] : undefined;
  return status === undefined ? undefined : new HttpException((error as Error).message, status);
}

function codeOf(error: unknown): string | undefined {
  if (error instanceof JobsError) return PASSING.has(error.code) ? error.code : undefined;
  const { code = "", message = "" } = (error ?? {}) as { code?: unknown; message?: unknown };
  const away = AWAY.test(String(code)) || (!code && AWAY_WITHOUT_CODE.test(String(message)));
  return away ? "DATABASE_UNAVAILABLE" : undefined;
}
