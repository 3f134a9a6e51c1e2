import type { ArgumentsHost } from "@nestjs/common";

/** What `getType()` answers in guards, interceptors and filters that run around a job handler. */
export const JOB_CONTEXT_TYPE = "job";

/**
 * Whether a guard, an interceptor or a filter runs around a job handler, and not around a request:
 * then `getArgByIndex(0)` is the payload and `getArgByIndex(1)` the {@link JobContext}.
 */
export const isJobContext = (host: ArgumentsHost): boolean =>
  host.getType<string>() === JOB_CONTEXT_TYPE;

/** What a filter is told of the job; Nest's own class for this is not public. */
export function jobHost(payload: unknown, job: unknown): ArgumentsHost {
  const args = [payload, job];
  const at = <T>(index: number) => args[index] as T;
  return {
    getArgs: <T extends unknown[]>() => args as T,
    getArgByIndex: at,
    getType: <T extends string>() => JOB_CONTEXT_TYPE as T,
    switchToHttp: () => ({
      getRequest: <T>() => at<T>(0),
      getResponse: <T>() => at<T>(1),
      getNext: <T>() => at<T>(2),
    }),
    switchToRpc: () => ({ getData: <T>() => at<T>(0), getContext: <T>() => at<T>(1) }),
    switchToWs: () => ({
      getClient: <T>() => at<T>(0),
      getData: <T>() => at<T>(1),
      getPattern: () => "",
    }),
  };
}
