import type { ExceptionFilter, Type } from "@nestjs/common";
import type { ContextId, ModuleRef } from "@nestjs/core";
import { isVerdict } from "../job/verdict.js";
import { jobHost } from "./job-host.js";

// Filters of handlers, in Nest's order: the last of the method first, those of the class after them. Nest's own way
// of running them would take what a filter returns for a success of the job, and log every failure a second time.

const FILTERS = "__exceptionFilters__";
const CATCHES = "__filterCatchExceptions__";

type Filter = ExceptionFilter | Type<ExceptionFilter>;

/** The filters of a handler, the one that is asked first in front. */
export const filtersOf = (owner: object, method: object): Filter[] =>
  [...own(owner), ...own(method)].reverse();

const own = (target: object): Filter[] =>
  (Reflect.getMetadata(FILTERS, target) as Filter[] | undefined) ?? [];

/**
 * Asks the first filter that is made for this error, and answers with what the run has thrown: the error, or what
 * the filter throws instead, or the verdict that it returns. Whatever else it returns, a failure stays a failure.
 */
export async function filtered(
  filters: readonly Filter[],
  module: ModuleRef,
  contextId: ContextId | undefined,
  error: unknown,
  [payload, job]: [unknown, unknown],
): Promise<unknown> {
  // A verdict is no failure.
  if (isVerdict(error)) return error;
  const filter = filters.find((one) => isFor(one, error));
  if (!filter) return error;
  try {
    const instance =
      typeof filter === "function"
        ? await module.resolve<ExceptionFilter>(filter, contextId, { strict: true })
        : filter;
    // oxlint-disable-next-line promise/valid-params -- a filter, no promise
    const said: unknown = await instance.catch(error, jobHost(payload, job));
    return isVerdict(said) ? said : error;
  } catch (another) {
    return another;
  }
}

function isFor(filter: Filter, error: unknown): boolean {
  const owner = typeof filter === "function" ? filter : filter.constructor;
  const types = (Reflect.getMetadata(CATCHES, owner) as Type[] | undefined) ?? [];
  return types.length === 0 || types.some((type) => error instanceof type);
}
