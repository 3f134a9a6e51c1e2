import { type CanActivate, type ExecutionContext, Injectable } from "@nestjs/common";
import { Reflector } from "@nestjs/core";
import { OPERATION, type Operation } from "../operation/operation.js";
import { type AnyRequest, rawOf } from "./raw-request.js";
import { bodyOf, notJson } from "./bodies.js";
import { keepInput } from "./input.js";
import { readBody, readQuery } from "./read-input.js";

/** Stands behind `AccessGuard`: whatever is asked, and only that, is what the route knows. */
@Injectable()
export class InputGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): true {
    const request = context.switchToHttp().getRequest<AnyRequest>();
    const raw = rawOf(request);
    const { query, body } = this.reflector.get<Operation>(OPERATION, context.getHandler());
    const sent = bodyOf(request);
    const asked = readQuery(raw, query ?? {});
    if (sent.trouble) throw sent.trouble;
    if (sent.type !== undefined && sent.type !== "application/json") throw notJson(sent.type);
    keepInput(request, { query: asked, body: readBody(sent, body) });
    return true;
  }
}
