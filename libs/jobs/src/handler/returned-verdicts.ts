import type { NestInterceptor } from "@nestjs/common";
import type { ExternalContextCreator } from "@nestjs/core";
import { Observable, type Observer } from "rxjs";
import { isVerdict } from "../job/verdict.js";
import type { Handler } from "./handler.js";
import type { JobContext } from "./job-context.js";

// Interceptors dress up what a handler returns, `map((data) => ({ data }))`, and know nothing of verdicts: a job that
// was buried would succeed. So the verdict of the method itself is kept, by attempt, before anything has touched it.

const INTERCEPTORS = "__interceptors__";

const verdicts = new WeakMap<object, unknown>();

const keep = (job: object, said: unknown): void =>
  void (isVerdict(said) ? verdicts.set(job, said) : verdicts.delete(job));

/** What Nest looks up with whatever runs around a method, the innermost last. */
interface Interceptors {
  create(...of: unknown[]): NestInterceptor[];
}

// By way of the innermost: one more of them would cost as much as the first one. Around the method itself it would be
// too near: an interceptor that has given up waiting, and asked again, must not be given the late answer.
/** From now on it keeps the verdicts of the methods that interceptors run around. */
export function keepVerdicts(creator: ExternalContextCreator): ExternalContextCreator {
  const { interceptorsContextCreator: interceptors } = creator as unknown as {
    interceptorsContextCreator?: Interceptors;
  };
  if (typeof interceptors?.create !== "function")
    throw new Error(
      "nestjs-pg-jobs does not know how this version of @nestjs/core finds interceptors: use another one, or tell us",
    );
  const create = interceptors.create.bind(interceptors);
  interceptors.create = (...of) => {
    const all = create(...of);
    const innermost = all.at(-1);
    return innermost ? [...all.slice(0, -1), keeping(innermost)] : all;
  };
  return creator;
}

const keeping = (innermost: NestInterceptor): NestInterceptor => ({
  intercept(context, next) {
    const job = context.getArgByIndex<object>(1);
    return innermost.intercept(context, { handle: () => heard(job, next.handle()) });
  },
});

// By hand: operators would do the same at twice the cost.
/** The same answers, kept as they are heard. An interceptor may ask twice: the last answer is the one that counts. */
const heard = (job: object, answers: Observable<unknown>): Observable<unknown> =>
  new Observable((subscriber) => {
    verdicts.delete(job);
    return answers.subscribe(new Keeper(job, subscriber));
  });

class Keeper implements Observer<unknown> {
  constructor(
    private readonly job: object,
    private readonly listener: Observer<unknown>,
  ) {}

  next(said: unknown): void {
    keep(this.job, said);
    this.listener.next(said);
  }
  error(error: unknown): void {
    this.listener.error(error);
  }
  complete(): void {
    this.listener.complete();
  }
}

/** Whether interceptors of its own run around the method. */
export const isIntercepted = (owner: object, method: object): boolean =>
  Reflect.hasMetadata(INTERCEPTORS, owner) || Reflect.hasMetadata(INTERCEPTORS, method);

/** The verdict that the method returns stands whenever the run returns, unless that returns another one. */
export const verdictStands =
  (run: (payload: unknown, job: JobContext) => Promise<unknown>): Handler["run"] =>
  (payload, job) =>
    run(payload, job).then((said) => (isVerdict(said) ? said : (verdicts.get(job) ?? said)));
