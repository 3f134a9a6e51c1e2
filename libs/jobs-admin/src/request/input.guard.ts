import { type CanActivate, type ExecutionContext, Injectable } from "@nestjs/common";
import { Reflector } from "@nestjs/core";
import { JobQueue } from "nestjs-pg-jobs";
import { tooWeak } from "../auth/access.guard.js";
import { type AdminOperator, operatorOf } from "../auth/operator.js";
import { reaches } from "../auth/roles.js";
import { OPERATION, type Operation } from "../operation/operation.js";
import { Payloads } from "../payloads/payloads.js";
import { bodyOf, notJson } from "./bodies.js";
import type { Fields } from "./field.js";
import { keepInput } from "./input.js";
import { type AnyRequest, paramsOf, rawOf } from "./raw-request.js";
import { readBody, readParameters, readQuery } from "./read-input.js";

/**
 * Stands behind `AccessGuard`, and before anything is written: whatever is asked, and only that, is what the route knows;
 * what does not fit, or is not his to ask, is refused.
 */
@Injectable()
export class InputGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly payloads: Payloads,
    private readonly jobs: JobQueue,
  ) {}

  canActivate(context: ExecutionContext): true {
    const request = context.switchToHttp().getRequest<AnyRequest>();
    const raw = rawOf(request);
    const operation = this.reflector.get<Operation>(OPERATION, context.getHandler());
    const { parameters = {}, query = {}, body } = operation;
    const sent = bodyOf(request);
    const named = paramsOf(request);
    readParameters(named, parameters);
    const asked = readQuery(raw, query);
    if (sent.trouble) throw sent.trouble;
    if (sent.type !== undefined && sent.type !== "application/json") throw notJson(sent.type);
    const said = readBody(sent, body);
    const operator = operatorOf(request);
    refuseForeign(said, body ?? {}, operator);
    const { payloads } = this;
    const { payloadLimit } = this.jobs;
    const input = { query: asked, body: said };
    operation.check?.({ ...input, parameters: named }, { operator, payloads, payloadLimit });
    keepInput(request, input);
    return true;
  }
}

/** What is only somebody else's to say. @throws ProblemException */
function refuseForeign(
  said: Record<string, unknown>,
  fields: Fields,
  operator: AdminOperator,
): void {
  for (const [name, { role }] of Object.entries(fields))
    if (role !== undefined && said[name] !== undefined && !reaches(operator.role, role))
      throw tooWeak(operator, role, `Leave out ${name}, or ask somebody of that role.`);
}
