import type { IncomingMessage } from "node:http";
import { type CanActivate, type ExecutionContext, Injectable } from "@nestjs/common";
import { ProblemException } from "./problem.js";
import { bodyTroubleOf } from "./requeue-body.js";

/** Stands behind `AdminGuard` where a body is read: there is none, or it is JSON that could be parsed. */
@Injectable()
export class JsonBodyGuard implements CanActivate {
  canActivate(context: ExecutionContext): true {
    const request = context.switchToHttp().getRequest<IncomingMessage>();
    const trouble = bodyTroubleOf(request);
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
