import { type ExecutionContext, createParamDecorator } from "@nestjs/common";
import { type AnyRequest, rawOf } from "./raw-request.js";

/** What was asked. */
export interface Asked {
  query: Record<string, unknown>;
  body: Record<string, unknown>;
}

const inputs = new WeakMap<object, Asked>();

/** Keeps what was read of a request. */
export function keepInput(request: AnyRequest, input: Asked): void {
  inputs.set(rawOf(request), input);
}

/** What was read of this one. */
export const inputOf = (request: AnyRequest): Asked => inputs.get(rawOf(request))!;

/** What was asked, as a parameter of a route: `InputOf` its operation. */
export const Input = createParamDecorator((_: unknown, context: ExecutionContext): Asked =>
  inputOf(context.switchToHttp().getRequest<AnyRequest>()),
);
