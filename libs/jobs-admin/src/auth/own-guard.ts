import type { IncomingHttpHeaders } from "node:http";
import { type CanActivate, type ExecutionContext, HttpException } from "@nestjs/common";
import { lastValueFrom, isObservable } from "rxjs";
import { problemOf } from "../problem.filter.js";
import { ProblemException } from "../problem.js";
import type { Door } from "./door.js";
import type { AdminOperator } from "./operator.js";
import { ADMIN_ROLES } from "./roles.js";

/** The guard that `JobsAdminModule.forRoot` was given. */
export const ADMIN_GUARD = "nestjs-pg-jobs-admin:guard";

/** A request as whoever says who asks sees it: the adapter's own, with what the guard has left on it. */
export interface OperatorRequest {
  headers: IncomingHttpHeaders;
  user?: unknown;
}

/** Says who it is that the guard has let in; null: nobody that this API knows. */
export type TellOperator = (
  request: OperatorRequest,
) => AdminOperator | null | undefined | Promise<AdminOperator | null | undefined>;

const NAME = /^[^\p{Cc}\p{Cs}]{1,200}$/u;

/** Lets in whom the guard of the app lets in; who that is, `operator` says. */
export class GuardDoor implements Door {
  readonly remedy: string;

  constructor(
    private readonly guard: CanActivate,
    private readonly tell: TellOperator | undefined,
  ) {
    this.remedy = tell
      ? "The option operator of JobsAdminModule.forRoot says who has which role."
      : "Without the option operator of JobsAdminModule.forRoot everybody is a viewer: give it operator: (request) => ({ name, role }).";
  }

  async admit(context: ExecutionContext): Promise<AdminOperator> {
    try {
      return await this.#entered(context);
    } catch (error) {
      if (!(error instanceof HttpException) || error instanceof ProblemException) throw error;
      // Else what it has as a body of its own would be the answer.
      const { status, code, detail } = problemOf(error);
      throw new ProblemException(status, code, detail);
    }
  }

  async #entered(context: ExecutionContext): Promise<AdminOperator> {
    const answer = this.guard.canActivate(context);
    const entered = await (isObservable(answer) ? lastValueFrom(answer) : answer);
    if (!entered) throw refused("The guard of this app does not let you in.");
    if (!this.tell) return { name: "somebody", role: "viewer" };
    const operator = await this.tell(context.switchToHttp().getRequest<OperatorRequest>());
    if (operator === null || operator === undefined)
      throw refused("The guard lets you in; this API knows no operator of that name.");
    return checked(operator);
  }
}

const refused = (detail: string) => new ProblemException(403, "FORBIDDEN", detail);

function checked({ name, role }: AdminOperator): AdminOperator {
  if (typeof name === "string" && NAME.test(name) && ADMIN_ROLES.includes(role))
    return { name, role };
  throw new Error(
    `Expected of the option operator of JobsAdminModule.forRoot a name of 1..200 characters and a role of ${ADMIN_ROLES.join(", ")}, found something else.`,
  );
}
