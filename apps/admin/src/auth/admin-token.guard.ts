import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  UnauthorizedException,
} from "@nestjs/common";
import type { Request, Response } from "express";
import { createHash, timingSafeEqual } from "node:crypto";

const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;
const digest = (text: string) => createHash("sha256").update(text).digest();

/** `Authorization: Bearer <token>`: 401 without one, 403 for another one. */
export class AdminTokenGuard implements CanActivate {
  readonly #expected: Buffer;

  constructor(token: string) {
    this.#expected = digest(token);
  }

  canActivate(context: ExecutionContext): true {
    const http = context.switchToHttp();
    const { authorization = "" } = http.getRequest<Request>().headers;
    const [, token] = BEARER.exec(authorization) ?? [];
    if (token === undefined) {
      http.getResponse<Response>().setHeader("www-authenticate", 'Bearer realm="admin"');
      throw new UnauthorizedException("Expected the header Authorization: Bearer <token>.");
    }
    // digests have one length, whatever was sent
    if (!timingSafeEqual(digest(token), this.#expected))
      throw new ForbiddenException("The token is not the one of this deployment.");
    return true;
  }
}
