import type { IncomingMessage } from "node:http";
import { type CanActivate, type ExecutionContext, Injectable } from "@nestjs/common";
import type { HttpAdapterHost } from "@nestjs/core";
import { ProblemException } from "./problem.js";

/** What the body parser of the app found wrong with a request. */
const troubles = new WeakMap<object, Error>();

/** Stands behind `AdminGuard` where a body is read: there is none, or it is JSON that could be parsed. */
@Injectable()
export class JsonBodyGuard implements CanActivate {
  canActivate(context: ExecutionContext): true {
    const request = context.switchToHttp().getRequest<IncomingMessage>();
    const trouble = troubles.get(request);
    if (trouble) throw trouble;
    const { headers } = request;
    const type = headers["content-type"]?.split(";")[0]!.trim().toLowerCase();
    if (type === "application/json" || !hasBody(headers)) return true;
    throw new ProblemException(
      415,
      "UNSUPPORTED_MEDIA_TYPE",
      `Expected no body, or content-type: application/json, found ${type?.slice(0, 64) ?? "none"}.`,
    );
  }
}

const hasBody = (headers: IncomingMessage["headers"]): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

/**
 * Express parses bodies before Nest asks any guard: who has no token would be told what is wrong with a body. So a
 * failure on the routes of `path` is kept, the request goes on, and the guard tells it to those who may know.
 */
export function keepBodyTroubles({ httpAdapter }: HttpAdapterHost, path: string): void {
  if (httpAdapter?.getType() !== "express") return;
  const ours = requeueRoute(path);
  // Four parameters: that is how Express knows those that hear of errors.
  httpAdapter.use(
    (error: Error, request: ExpressRequest, _response: object, next: (error?: Error) => void) => {
      if (request.method !== "POST" || !ours.test(request.path)) return next(error);
      troubles.set(request, error);
      next();
    },
  );
}

interface ExpressRequest {
  method: string;
  path: string;
}

/** Below any global prefix or version: only Nest knows these, and only later. */
function requeueRoute(path: string): RegExp {
  const mount = path
    .split("/")
    .filter(Boolean)
    .map((part) => `/${part.replaceAll(/[^\w-]/g, String.raw`\$&`)}`)
    .join("");
  return new RegExp(`${mount}/jobs/[^/]+/requeue/?$`, "i");
}
