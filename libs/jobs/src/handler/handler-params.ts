import type { PipeTransform, Type } from "@nestjs/common";

// Which parameter of a handler gets what. Nest runs pipes on parameters that have metadata only: those of a
// handler with enhancers that say nothing get it here, the payload first, the context of the job second.

export const PARAMS = "nestjs-pg-jobs:params";
/** Where decorators of parameters leave what they say. Nest makes the pipe classes that it finds here, and no others. */
const ROUTE_ARGUMENTS = "__routeArguments__";

// Nest's numbers: 3 is a body to a pipe, whatever has no meaning of its own is "custom", which a ValidationPipe lets
// be. The context has a number that nobody has: 1 would be the response, should the method also be a route.
const PAYLOAD = 3;
const CONTEXT = 101;

type Pipes = (Type<PipeTransform> | PipeTransform)[];
type Params = Record<string, { index: number; data: unknown; pipes?: Pipes }>;

function param(type: number, pipes: Pipes): ParameterDecorator {
  return (target, method, index) => {
    const owner = target.constructor;
    const known = read(owner, method!);
    const mine = { [`${type}:${index}`]: { index, data: undefined, pipes } };
    Reflect.defineMetadata(ROUTE_ARGUMENTS, { ...known, ...mine }, owner, method!);
  };
}

/**
 * The payload of the job, through these pipes; the first parameter of a handler is it without saying so.
 * @param pipes a class is made by Nest, with what it needs, for the module of the handler.
 */
export const Payload = (...pipes: Pipes): ParameterDecorator => param(PAYLOAD, pipes);

/** The {@link JobContext}; the second parameter of a handler is it without saying so. */
export const Job = (): ParameterDecorator => param(CONTEXT, []);

/** Whether the handler's parameters say what they want. */
export const hasParams = (owner: object, method: string | symbol): boolean =>
  Reflect.hasMetadata(ROUTE_ARGUMENTS, owner, method);

/** The pipes that the handler's parameters name. */
export const pipesOf = (owner: object, method: string | symbol): unknown[] =>
  Object.values(read(owner, method)).flatMap(({ pipes }) => pipes ?? []);

/** Makes metadata for the parameters that have none. */
export function completeParams(owner: object, method: string): void {
  const params = { ...read(owner, method) };
  const said = new Set(Object.values(params).map(({ index }) => index));
  [PAYLOAD, CONTEXT].forEach((type, index) => {
    if (!said.has(index)) params[`${type}:${index}`] = { index, data: undefined, pipes: [] };
  });
  Reflect.defineMetadata(PARAMS, params, owner, method);
}

/** Finds what a parameter asked for among the arguments of the handler. */
export const paramsFactory = {
  exchangeKeyForValue: (type: number, _data: unknown, [payload, job]: unknown[]): unknown =>
    type === PAYLOAD ? payload : type === CONTEXT ? job : undefined,
};

const read = (owner: object, method: string | symbol): Params =>
  (Reflect.getMetadata(ROUTE_ARGUMENTS, owner, method) as Params | undefined) ?? {};
