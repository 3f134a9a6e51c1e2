import type { IncomingMessage } from "node:http";
import type { HttpAdapterHost } from "@nestjs/core";
import { ProblemException } from "./problem.js";

// Express parses bodies for all routes alike and before Nest asks any guard, up to 100 kB. The route of requeues takes
// what the queue takes: its bodies are read here, before the parser of the app, which leaves alone what has been read.
// Who has no token would be told what is wrong with a body: so that is kept, the request goes on, and the guard tells
// it to those who may know.

interface ExpressRequest extends IncomingMessage {
  path: string;
  body?: unknown;
}
type Next = (error?: Error) => void;

/** What was found wrong with the body of a request. */
const troubles = new WeakMap<object, Error>();

export const bodyTroubleOf = (request: object): Error | undefined => troubles.get(request);

/** To be called before the app registers its parsers. */
export function readRequeueBodies(
  { httpAdapter }: HttpAdapterHost,
  path: string,
  payloadLimit: number,
): void {
  if (httpAdapter?.getType() !== "express") return;
  const ours = requeueRoute(path);
  httpAdapter.use(function readRequeueBody(request: ExpressRequest, _: object, next: Next) {
    if (!isOurs(ours, request) || !isPlainJson(request)) return next();
    read(request, payloadLimit)
      .then(
        (body) => void (request.body = body),
        (error: Error) => void troubles.set(request, error),
      )
      .finally(() => next());
  });
}

/** What the parser of the app has found wrong with the rest; to be called after it is registered. */
export function keepBodyTroubles({ httpAdapter }: HttpAdapterHost, path: string): void {
  if (httpAdapter?.getType() !== "express") return;
  const ours = requeueRoute(path);
  // Four parameters: that is how Express knows those that hear of errors.
  httpAdapter.use((error: Error, request: ExpressRequest, _response: object, next: Next) => {
    if (!isOurs(ours, request)) return next(error);
    troubles.set(request, error);
    next();
  });
}

const isOurs = (route: RegExp, { method, path }: ExpressRequest): boolean =>
  method === "POST" && route.test(path);

/** Below any global prefix or version: only Nest knows these, and only later. */
function requeueRoute(path: string): RegExp {
  const mount = path
    .split("/")
    .filter(Boolean)
    .map((part) => `/${part.replaceAll(/[^\w-]/g, String.raw`\$&`)}`)
    .join("");
  return new RegExp(`${mount}/jobs/[^/]+/requeue/?$`, "i");
}

/** In UTF-8 and not compressed; what else there is, the parser of the app knows. */
function isPlainJson({ headers }: IncomingMessage): boolean {
  const type = /^application\/json *(?:; *charset=["']?utf-8["']?)?$/i;
  return (
    type.test(headers["content-type"] ?? "") &&
    (headers["content-encoding"] ?? "identity") === "identity"
  );
}

/** Space and escapes make a payload longer than it is when it is enqueued. */
const longestBody = (payloadLimit: number): number => 2 * payloadLimit + 1_024;

async function read(request: ExpressRequest, payloadLimit: number): Promise<unknown> {
  const limit = longestBody(payloadLimit);
  const chunks: Buffer[] = [];
  let length = 0;
  // To its end, whatever comes: a client that still sends hears no answer.
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length <= limit) chunks.push(chunk);
    else chunks.length = 0;
  }
  if (length > limit)
    throw new ProblemException(
      413,
      "PAYLOAD_TOO_LARGE",
      `Expected a body of at most ${limit} bytes, for a payload of at most ${payloadLimit} (payloadLimit), found ${length}.`,
    );
  if (length === 0) return undefined;
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8")) as unknown;
  } catch {
    throw new ProblemException(400, "BAD_REQUEST", "Expected JSON, found something else.");
  }
}
