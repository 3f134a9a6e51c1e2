import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  Logger,
  type NestInterceptor,
} from "@nestjs/common";
import { HttpAdapterHost, Reflector } from "@nestjs/core";
import { JobAudit, JobRequests } from "nestjs-pg-jobs";
import { type Observable, from, lastValueFrom } from "rxjs";
import { operatorOf } from "../auth/operator.js";
import { OPERATION, type Operation } from "../operation/operation.js";
import { problemOf } from "../problem.filter.js";
import { type Problem, ProblemException } from "../problem.js";
import { Snapshot } from "../stats/snapshot.js";
import { type AnyRequest, rawOf } from "../request/raw-request.js";
import { deedOf } from "./deed.js";
import { askedOf, keyOf, reused, underWay } from "./repeatable.js";

/**
 * Around every route that changes something: what is about to be done is written down, then done, then how it ended; and a
 * request with an `Idempotency-Key` that comes again is answered as the first time.
 */
@Injectable()
export class DeedsInterceptor implements NestInterceptor {
  readonly #logger = new Logger("JobsAdmin");

  constructor(
    private readonly audit: JobAudit,
    private readonly requests: JobRequests,
    private readonly host: HttpAdapterHost,
    private readonly reflector: Reflector,
    private readonly snapshot: Snapshot,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const operation = this.reflector.get<Operation>(OPERATION, context.getHandler());
    if (operation.method === "get" || operation.changes === false) return next.handle();
    const doing = () => this.#recorded(context, operation, () => lastValueFrom(next.handle()));
    return from(this.#once(context, doing));
  }

  async #once(context: ExecutionContext, doing: () => Promise<unknown>): Promise<unknown> {
    const http = context.switchToHttp();
    const request = http.getRequest<AnyRequest>();
    const key = keyOf(rawOf(request));
    if (key === undefined) return await doing();
    const { name } = operatorOf(request);
    const mine = { operator: name, key };
    const taken = await this.requests.take(mine, askedOf(request));
    if (taken.what === "other") throw reused();
    if (taken.what === "busy") throw underWay();
    if (taken.what === "answered") {
      this.host.httpAdapter.setHeader(http.getResponse(), "idempotency-replayed", "true");
      if (taken.status < 400) return taken.body;
      throw said(taken.body as Problem);
    }
    let value: unknown;
    try {
      value = await doing();
    } catch (error) {
      const problem = problemOf(error);
      // Who repeats what has failed on our side, or met a lock, may try again.
      if (problem.status >= 500 || problem.code === "JOB_LOCKED")
        await this.requests.drop(mine, taken.fence).catch(() => undefined);
      else await this.requests.answer(mine, taken.fence, problem.status, problem);
      throw error;
    }
    // It was done. Where that cannot be kept, who repeats it hears for a minute that it is under way, and not that it failed.
    await this.requests
      .answer(mine, taken.fence, 200, value)
      .catch((error: unknown) =>
        this.#logger.warn("An answer was not kept", { error: String(error) }),
      );
    return value;
  }

  async #recorded(
    context: ExecutionContext,
    { id }: Operation,
    doing: () => Promise<unknown>,
  ): Promise<unknown> {
    const deed = deedOf(id, context.switchToHttp().getRequest<AnyRequest>());
    const entry = (await this.audit.kept()) ? await this.audit.begin(deed) : undefined;
    const ended = async (outcome: string) => {
      const { operator, role, action, target } = deed;
      this.#logger.log("Operator", { operator, role, action, target, outcome });
      this.snapshot.forget();
      // It was done: that nobody can say so now changes nothing about that.
      if (entry !== undefined) await this.audit.end(entry, outcome).catch(() => undefined);
    };
    try {
      const value = await doing();
      await ended("done");
      return value;
    } catch (error) {
      await ended(problemOf(error).code);
      throw error;
    }
  }
}

const STANDARD = new Set(["type", "title", "status", "code", "detail"]);

function said(problem: Problem): ProblemException {
  const more = Object.entries(problem).filter(([name]) => !STANDARD.has(name));
  const { status, code, detail } = problem;
  return new ProblemException(status, code, detail, Object.fromEntries(more));
}
