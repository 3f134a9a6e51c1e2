import type { NestInterceptor } from "@nestjs/common";
import { tap } from "rxjs";
import { isVerdict } from "../job/verdict.js";
import type { Handler } from "./handler.js";

// Interceptors dress up what a handler returns, `map((data) => ({ data }))`, and know nothing of verdicts: a job that
// was buried would succeed. So the verdict of the method itself is kept, by attempt, before anything has touched it.

const INTERCEPTORS = "__interceptors__";

const verdicts = new WeakMap<object, unknown>();

const recorder: NestInterceptor = {
  intercept(context, next) {
    const job = context.getArgByIndex<object>(1);
    // An interceptor may ask twice: the last answer is the one that counts.
    verdicts.delete(job);
    return next
      .handle()
      .pipe(tap((said) => void (isVerdict(said) ? verdicts.set(job, said) : verdicts.delete(job))));
  },
};

/** Whether interceptors of its own run around the method. */
export const isIntercepted = (owner: object, method: object): boolean =>
  Reflect.hasMetadata(INTERCEPTORS, owner) || Reflect.hasMetadata(INTERCEPTORS, method);

/**
 * What `create` has Nest put together for the method; the verdict that the method returns stands whenever the run
 * returns, unless it returns another one.
 */
export function verdictsStand(method: object, create: () => Handler["run"]): Handler["run"] {
  const run = withInnermost(method, create);
  return async (payload, job) => {
    const said = await run(payload, job);
    return isVerdict(said) ? said : (verdicts.get(job) ?? said);
  };
}

/** Nest takes the last interceptor of the method for the innermost. The method is left as it was. */
function withInnermost<T>(method: object, create: () => T): T {
  const named = Reflect.getOwnMetadata(INTERCEPTORS, method) as unknown[] | undefined;
  Reflect.defineMetadata(INTERCEPTORS, [...(named ?? []), recorder], method);
  try {
    return create();
  } finally {
    if (named) Reflect.defineMetadata(INTERCEPTORS, named, method);
    else Reflect.deleteMetadata(INTERCEPTORS, method);
  }
}
