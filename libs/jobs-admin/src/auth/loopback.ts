import type { ExecutionContext } from "@nestjs/common";
import { ProblemException } from "../problem.js";
import { type AnyRequest, type RawRequest, hostOf, rawOf } from "../request/raw-request.js";
import type { Door } from "./door.js";
import type { AdminOperator } from "./operator.js";

const ADDRESS = /^(?:::ffff:)?127\.\d+\.\d+\.\d+$|^::1$/;
const HOST = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?$/;
/** What a proxy on this machine would add for somebody who is elsewhere. */
const FORWARDED = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/**
 * Of development: lets in whoever is on this machine, and asks for nothing. A proxy on this machine that adds no header, such
 * as a plain `proxy_pass` of nginx, cannot be told from it: nobody may put one before it.
 */
export class LoopbackDoor implements Door {
  readonly remedy = "In development everybody is an admin.";

  async admit(context: ExecutionContext): Promise<AdminOperator> {
    if (isLocal(rawOf(context.switchToHttp().getRequest<AnyRequest>())))
      return { name: "developer", role: "admin" };
    throw new ProblemException(
      403,
      "LOOPBACK_ONLY",
      "Expected a request from this very machine, not through a proxy and not under another name: without tokens or a guard nobody else is served.",
    );
  }
}

/** A page elsewhere whose name leads here (DNS rebinding) still says that name. */
function isLocal(request: RawRequest): boolean {
  const { socket, headers } = request;
  return (
    ADDRESS.test(socket.remoteAddress ?? "") &&
    ADDRESS.test(socket.localAddress ?? "") &&
    HOST.test(hostOf(request)) &&
    FORWARDED.every((name) => headers[name] === undefined)
  );
}
