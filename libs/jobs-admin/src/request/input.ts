import { type ExecutionContext, createParamDecorator } from "@nestjs/common";
import { type AnyRequest, rawOf } from "./raw-request.js";

const inputs = new WeakMap<object, object>();

/** Keeps what was read of a request. */
export function keepInput(request: AnyRequest, input: object): void {
  inputs.set(rawOf(request), input);
}

/** What was asked, as a parameter of a route: `InputOf` its operation. */
export const Input = createParamDecorator((_: unknown, context: ExecutionContext): object =>
  inputs.get(rawOf(context.switchToHttp().getRequest<AnyRequest>()))!,
);
