import type { DiscoveryService } from "@nestjs/core";
import { pipesOf } from "./handler-params.js";

type Wrapper = ReturnType<DiscoveryService["getProviders"]>[number];

/** Where guards, interceptors and pipes are named, and what each of them must have. Filters are not left out: we run them. */
const VERBS = [
  ["__guards__", "canActivate"],
  ["__interceptors__", "intercept"],
  ["__pipes__", "transform"],
] as const;

/**
 * What Nest would leave out without a word when it puts the handler together: guards, interceptors and pipes that it
 * has not made for the module of the handler's provider, and what is none.
 */
export function leftOut(
  wrapper: Wrapper,
  owner: object,
  method: string | symbol,
  body: object,
): string[] {
  const named = VERBS.flatMap(([key, verb]) =>
    [owner, body]
      .flatMap((where) => (Reflect.getMetadata(key, where) as unknown[] | undefined) ?? [])
      .map((one) => [one, verb] as const),
  );
  const ofParams = pipesOf(owner, method).map((one) => [one, "transform"] as const);
  return [...named, ...ofParams].flatMap(([one, verb]) => problem(wrapper, one, verb) ?? []);
}

function problem(wrapper: Wrapper, one: unknown, verb: string): string | undefined {
  if (typeof one !== "function")
    return can(one, verb)
      ? undefined
      : `expected a class or an object with ${verb}(), found ${one === undefined ? "undefined; do two files import each other?" : "none in it"}`;
  const { host, token } = wrapper;
  // Nest looks for them beside providers only, never beside controllers.
  if (host?.providers.get(token) !== wrapper)
    return `${one.name}: expected on a provider, found on a controller; move the handler to a provider`;
  const made = host.injectables.get(one);
  if (!made) return `${one.name}: Nest has not made it for the module ${host.name}`;
  // What is made for each attempt is not there yet.
  const scoped = made.isTransient || !made.isDependencyTreeStatic();
  if (scoped || can(made.instance, verb) || can(one, verb)) return undefined;
  return `${one.name}: expected a class with ${verb}(), found none in it`;
}

function can(one: unknown, verb: string): boolean {
  return (
    one !== null &&
    one !== undefined &&
    typeof (one as Record<string, unknown>)[verb] === "function"
  );
}
