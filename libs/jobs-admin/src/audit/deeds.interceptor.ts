import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  Logger,
  type NestInterceptor,
} from "@nestjs/common";
import { HttpAdapterHost, Reflector } from "@nestjs/core";
import { type Deed, JobAudit, JobRequests, mayBeDone } from "nestjs-pg-jobs";
import { setTimeout as sleep } from "node:timers/promises";
import { type Observable, from, lastValueFrom } from "rxjs";
import { operatorOf } from "../auth/operator.js";
import { OPERATION, type Operation, isDeed } from "../operation/operation.js";
import { problemOf } from "../problem.filter.js";
import { type Problem, ProblemException } from "../problem.js";
import { Snapshot } from "../stats/snapshot.js";
import { type AnyRequest, rawOf } from "../request/raw-request.js";
import { deedOf } from "./deed.js";
import { askedOf, keyOf, maybeDone, reused, unanswered, underWay } from "./repeatable.js";

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
    if (!isDeed(operation)) return next.handle();
    const deed = deedOf(operation.id, context.switchToHttp().getRequest<AnyRequest>());
    return from(this.#once(context, deed, () => lastValueFrom(next.handle())));
  }

  async #once(
    context: ExecutionContext,
    deed: Deed,
    doing: () => Promise<unknown>,
  ): Promise<unknown> {
    const http = context.switchToHttp();
    const request = http.getRequest<AnyRequest>();
    const key = keyOf(rawOf(request));
    if (key === undefined) return await this.#recorded(deed, await this.#begun(deed), doing);
    const mine = { operator: operatorOf(request).name, key };
    const taken = await this.requests.take(mine, askedOf(request));
    if (taken.what === "other") throw reused();
    if (taken.what === "busy") throw underWay();
    if (taken.what === "silent") throw maybeDone();
    if (taken.what === "answered") {
      this.host.httpAdapter.setHeader(http.getResponse(), "idempotency-replayed", "true");
      if (taken.status < 400) return taken.body;
      throw said(taken.body as Problem);
    }
    const { fence } = taken;
    // Until it is kept, or dropped, who repeats it hears that it is under way, and then that it may have been done.
    const untilDone = (work: () => Promise<unknown>) =>
      work().catch(() => void this.#later(work, "An answer was not kept", { key }));
    const keep = (status: number, body: unknown) =>
      untilDone(() => this.requests.answer(mine, fence, status, body));
    const drop = () => untilDone(() => this.requests.drop(mine, fence));
    const entry = await this.#begun(deed).catch(async (error: unknown) => {
      await drop();
      throw error;
    });
    try {
      const value = await this.#recorded(deed, entry, doing);
      await keep(200, value);
      return value;
    } catch (error) {
      const problem = problemOf(error);
      if (problem.status >= 500 && mayBeDone(error)) {
        const again = problemOf(maybeDone(problem.ids));
        await keep(again.status, again);
      } else if (problem.status >= 500 || problem.code === "JOB_LOCKED") await drop();
      else await keep(problem.status, problem);
      throw error;
    }
  }

  /** Written down, where there is room for it. */
  async #begun(deed: Deed): Promise<string | undefined> {
    return (await this.audit.kept()) ? await this.audit.begin(deed) : undefined;
  }

  async #recorded(
    deed: Deed,
    entry: string | undefined,
    doing: () => Promise<unknown>,
  ): Promise<unknown> {
    let value: unknown;
    try {
      value = await doing();
    } catch (error) {
      const told = unanswered(error);
      await this.#ended(deed, entry, problemOf(told).code);
      throw told;
    }
    await this.#ended(deed, entry, "done");
    return value;
  }

  async #ended(deed: Deed, entry: string | undefined, outcome: string): Promise<void> {
    this.snapshot.forget();
    // It was done, or not: that nobody can say so now changes nothing about that.
    if (entry !== undefined) {
      const end = () => this.audit.end(entry, outcome);
      const lost = "The outcome of a deed was not kept";
      await end().catch(() => void this.#later(end, lost, { entry, outcome }));
    }
    const { operator, role, action, target } = deed;
    this.#logger.log("Operator", { operator, role, action, target, outcome });
  }

  /** While the database is away for a little; never rejects. */
  async #later(work: () => Promise<unknown>, lost: string, about: object): Promise<void> {
    for (const seconds of PAUSES) {
      await sleep(seconds * 1_000, undefined, { ref: false });
      const ended = await work().then(
        () => true,
        () => false,
      );
      if (ended) return;
    }
    this.#logger.warn(lost, about);
  }
}

/** Between the tries to write down what became of a deed. */
const PAUSES = [1, 2, 4, 8, 16, 32];

const STANDARD = new Set(["type", "title", "status", "code", "detail"]);

function said(problem: Problem): ProblemException {
  const more = Object.entries(problem).filter(([name]) => !STANDARD.has(name));
  const { status, code, detail } = problem;
  return new ProblemException(status, code, detail, Object.fromEntries(more));
}
