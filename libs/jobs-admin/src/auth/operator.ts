import { type ExecutionContext, createParamDecorator } from "@nestjs/common";
import { type AnyRequest, rawOf } from "../request/raw-request.js";
import type { AdminRole } from "./roles.js";

/** Who asks: for those who look later at what was done, and for what he may do. */
export interface AdminOperator {
  /** 1..200 characters without control characters. */
  name: string;
  role: AdminRole;
}

const operators = new WeakMap<object, AdminOperator>();

/** Keeps who asks, for the route. */
export function remember(request: AnyRequest, operator: AdminOperator): void {
  operators.set(rawOf(request), operator);
}

/** Who asks. */
export const operatorOf = (request: AnyRequest): AdminOperator => operators.get(rawOf(request))!;

/** The {@link AdminOperator} of the request, as a parameter of a route. */
export const Asker = createParamDecorator((_: unknown, context: ExecutionContext): AdminOperator =>
  operatorOf(context.switchToHttp().getRequest<AnyRequest>()),
);
