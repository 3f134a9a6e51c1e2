import type { ExternalContextCreator } from "@nestjs/core";
import { isObservable, tap } from "rxjs";
import { isVerdict } from "../job/verdict.js";
import type { Handler } from "./handler.js";

// Interceptors dress up what a handler returns, `map((data) => ({ data }))`, and know nothing of verdicts: a job that
// was buried would succeed. So the verdict of the method itself is kept, by attempt, before anything has touched it.

const INTERCEPTORS = "__interceptors__";

const verdicts = new WeakMap<object, unknown>();

const keep = (job: object, said: unknown): void =>
  void (isVerdict(said) ? verdicts.set(job, said) : verdicts.delete(job));

type Next = () => Promise<unknown>;
/** What Nest runs interceptors with. */
interface Consumer {
  intercept(
    interceptors: readonly unknown[],
    args: readonly unknown[],
    instance: object,
    callback: unknown,
    next: Next,
    type?: string,
  ): Promise<unknown>;
}

// Where interceptors call the method: one more of them, as the innermost, would cost as much as the first one.
/** From now on it keeps the verdicts of the methods that interceptors run around. */
export function keepVerdicts(creator: ExternalContextCreator): ExternalContextCreator {
  const { interceptorsConsumer: consumer } = creator as unknown as {
    interceptorsConsumer?: Consumer;
  };
  if (typeof consumer?.intercept !== "function")
    throw new Error(
      "nestjs-pg-jobs does not know how this version of @nestjs/core calls interceptors: use another one, or tell us",
    );
  const intercept = consumer.intercept.bind(consumer);
  consumer.intercept = (interceptors, args, instance, callback, next, type) =>
    intercept(
      interceptors,
      args,
      instance,
      callback,
      interceptors.length === 0 ? next : keeping(args[1] as object, next),
      type,
    );
  return creator;
}

const keeping =
  (job: object, next: Next): Next =>
  async () => {
    // An interceptor may ask twice: the last answer is the one that counts.
    verdicts.delete(job);
    const said = await next();
    if (isObservable(said)) return said.pipe(tap((one) => keep(job, one)));
    keep(job, said);
    return said;
  };

/** Whether interceptors of its own run around the method. */
export const isIntercepted = (owner: object, method: object): boolean =>
  Reflect.hasMetadata(INTERCEPTORS, owner) || Reflect.hasMetadata(INTERCEPTORS, method);

/** The verdict that the method returns stands whenever the run returns, unless that returns another one. */
export const verdictStands =
  (run: Handler["run"]): Handler["run"] =>
  async (payload, job) => {
    const said = await run(payload, job);
    return isVerdict(said) ? said : (verdicts.get(job) ?? said);
  };
