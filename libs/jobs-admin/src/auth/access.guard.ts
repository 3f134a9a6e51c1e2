import {
  type CanActivate,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  Logger,
} from "@nestjs/common";
import { HttpAdapterHost, Reflector } from "@nestjs/core";
import { OPERATION, type Operation } from "../operation/operation.js";
import { ProblemException } from "../problem.js";
import { type AnyRequest, rawOf } from "../request/raw-request.js";
import { withoutTraces } from "../without-traces.js";
import { refuseCrossSite } from "./cross-site.js";
import { ADMIN_DOOR, type Door } from "./door.js";
import { Failures } from "./failures.js";
import { type AdminOperator, remember } from "./operator.js";
import { reaches } from "./roles.js";

/** Stands before every route: who is it, is his role strong enough, and did he mean to send this. */
@Injectable()
export class AccessGuard implements CanActivate {
  readonly #logger = new Logger("JobsAdmin");

  constructor(
    @Inject(ADMIN_DOOR) private readonly door: Door,
    private readonly failures: Failures,
    private readonly host: HttpAdapterHost,
    private readonly reflector: Reflector,
  ) {}

  async canActivate(context: ExecutionContext): Promise<true> {
    const http = context.switchToHttp();
    const request = http.getRequest<AnyRequest>();
    withoutTraces(this.host.httpAdapter, http.getResponse());
    const operation = this.reflector.get<Operation | undefined>(OPERATION, context.getHandler());
    if (!operation)
      throw new Error(
        `Expected @Serves on each route, with its role, found none on ${context.getClass().name}.${context.getHandler().name}`,
      );
    const operator = await this.#admitted(context, request);
    refuseCrossSite(rawOf(request));
    if (!reaches(operator.role, operation.role))
      throw tooWeak(operator, operation.role, this.door.remedy);
    remember(request, operator);
    return true;
  }

  async #admitted(context: ExecutionContext, request: AnyRequest): Promise<AdminOperator> {
    try {
      return await this.door.admit(context);
    } catch (error) {
      if (!isWrongCredential(error, request)) throw error;
      const address = request.ip ?? rawOf(request).socket.remoteAddress ?? "unknown";
      const { wait, last } = this.failures.add(address);
      if (last) this.#logger.warn("Too many wrong credentials", { address });
      if (wait === 0) throw error;
      const { httpAdapter } = this.host;
      const response: unknown = context.switchToHttp().getResponse();
      httpAdapter.setHeader(response, "retry-after", String(wait));
      throw new ProblemException(
        429,
        "TOO_MANY_FAILURES",
        `Too many wrong credentials came from this address. Send the right one, or wait for ${wait} s.`,
      );
    }
  }
}

/** Who sends none guesses nothing. */
function isWrongCredential(error: unknown, request: AnyRequest): boolean {
  if (!(error instanceof HttpException) || ![401, 403].includes(error.getStatus())) return false;
  const { authorization, cookie } = rawOf(request).headers;
  return authorization !== undefined || cookie !== undefined;
}

/** The problem of a role that does not reach. */
export const tooWeak = (
  { role }: AdminOperator,
  needed: AdminOperator["role"],
  remedy: string,
): ProblemException =>
  new ProblemException(
    403,
    "ROLE_TOO_WEAK",
    `Expected the role ${needed}, found ${role}. ${remedy}`,
    { role, needed },
  );
