import type { ApplicationConfig, HttpAdapterHost } from "@nestjs/core";
import { mountPattern, patternOf } from "../mount.js";
import type { Operation } from "../operation/operation.js";
import { ProblemException } from "../problem.js";
import { type AnyRequest, type RawRequest, rawOf, routedPath } from "./raw-request.js";

// Frameworks parse bodies before anybody asks a guard, each with other limits and other errors. Those of our routes are
// read here, before: who has no credential is told that, and not what is wrong with his body; and a requeue takes what
// the queue takes. What has been read is no body any more, for whatever parser comes next.

/** What came with a request. */
export interface Body {
  /** The media type that it said; undefined: there is no body. */
  type: string | undefined;
  value?: unknown;
  /** What is wrong with it. */
  trouble?: Error;
}

/** Parsed when somebody asks: who has no credential has nothing parsed for him. */
const bodies = new WeakMap<RawRequest, () => Body>();

/** Longer ones say nothing that these routes understand. */
const LONGEST = 65_536;
/** Payloads are told that 100 is their limit; whatever else goes through a body, level by level, has room for these. */
const DEEPEST = 1_000;
/** Space and escapes make a payload longer than it is when it is enqueued. */
const longestFor = (payloadLimit: number): number => 2 * payloadLimit + 1_024;

/** What came with this request; where the app is mounted in some other way, what its parser has made of it. */
export function bodyOf(request: AnyRequest): Body {
  const raw = rawOf(request);
  const known = bodies.get(raw);
  if (known) return known();
  if (!hasBody(raw)) return { type: undefined };
  return { type: mediaType(raw), ...shallow(request.body) };
}

export interface Reading {
  /** Where the module is mounted. */
  path: string;
  payloadLimit: number;
  operations: readonly Operation[];
}

/** To be called before the app registers its parsers. */
export function readBodies(
  { httpAdapter }: HttpAdapterHost,
  config: ApplicationConfig,
  { path, payloadLimit, operations }: Reading,
): void {
  let ours: RegExp | undefined;
  httpAdapter?.use(function readAdminBody(request: RawRequest, _: object, next: () => void) {
    if (!isSent(request) || request.readableEnded) return next();
    // Only now: the prefix may be set after the modules are made.
    ours ??= routes(config, path, operations);
    const asked = routedPath(request);
    if (!ours.test(`${request.method} ${asked}`)) return next();
    const limit = /\/requeue\/?$/i.test(asked) ? longestFor(payloadLimit) : LONGEST;
    void read(request, limit, payloadLimit)
      .then((body) => {
        bodies.set(request, body);
        for (const name of FRAME) delete request.headers[name];
      })
      .finally(next);
  });
}

/** All of our routes: some parsers read what comes with a GET, too. */
function routes(config: ApplicationConfig, path: string, operations: readonly Operation[]): RegExp {
  const mount = mountPattern(config, path);
  const ours = operations.map(
    (one) =>
      `${one.method === "get" ? "(?:get|head)" : one.method} ${mount}${patternOf(one.path, true)}/?`,
  );
  return new RegExp(`^(?:${ours.join("|")})$`, "i");
}

/** What says to a parser that there is a body. */
const FRAME = ["content-type", "content-length", "transfer-encoding"] as const;
const isSent = ({ headers }: RawRequest): boolean =>
  FRAME.some((name) => headers[name] !== undefined);

const hasBody = ({ headers }: RawRequest): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

const mediaType = ({ headers }: RawRequest): string =>
  headers["content-type"]?.split(";")[0]!.trim().toLowerCase().slice(0, 64) || "none";

async function read(request: RawRequest, limit: number, payloadLimit: number): Promise<() => Body> {
  if (!hasBody(request)) return () => ({ type: undefined });
  const type = mediaType(request);
  const said = request.headers["content-type"];
  const plain = isPlainJson(request);
  try {
    const bytes = await bytesOf(request, limit, payloadLimit);
    if (bytes.length === 0) return () => ({ type: undefined });
    return () => (plain ? { type, ...parsed(bytes) } : { type, trouble: notJson(said) });
  } catch (error) {
    // Else the client has cut it off: nobody hears what is answered.
    const trouble =
      error instanceof ProblemException
        ? error
        : new ProblemException(400, "BAD_REQUEST", "Expected the whole body, found a part of it.");
    return () => ({ type, trouble });
  }
}

async function bytesOf(request: RawRequest, limit: number, payloadLimit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  // To its end, whatever comes: a client that still sends hears no answer.
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length <= limit) chunks.push(chunk);
    else chunks.length = 0;
  }
  if (length <= limit) return Buffer.concat(chunks);
  const what = limit === LONGEST ? "" : `, for a payload of at most ${payloadLimit} (payloadLimit)`;
  throw new ProblemException(
    413,
    "PAYLOAD_TOO_LARGE",
    `Expected a body of at most ${limit} bytes${what}, found ${length}.`,
  );
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function parsed(bytes: Buffer): Pick<Body, "value" | "trouble"> {
  try {
    return shallow(JSON.parse(utf8.decode(bytes)));
  } catch {
    const expected = "Expected JSON in UTF-8, found something else.";
    return { trouble: new ProblemException(400, "BAD_REQUEST", expected) };
  }
}

/** What is too deep would end whoever goes through it. */
function shallow(value: unknown): Pick<Body, "value" | "trouble"> {
  if (!isDeeper(value, DEEPEST)) return { value };
  const problem = `body: expected at most ${DEEPEST} levels of lists and objects, found more`;
  const problems = [problem];
  return { trouble: new ProblemException(400, "BODY_INVALID", `${problem}.`, { problems }) };
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === "object" &&
  value !== null &&
  (levels === 0 || Object.values(value).some((item) => isDeeper(item, levels - 1)));

/** In UTF-8 and not compressed. */
function isPlainJson({ headers }: RawRequest): boolean {
  const type = /^application\/json *(?:; *charset=["']?utf-8["']?)?$/i;
  return (
    type.test(headers["content-type"]?.trim() ?? "") &&
    (headers["content-encoding"] ?? "identity") === "identity"
  );
}

export const notJson = (type = "none"): ProblemException =>
  new ProblemException(
    415,
    "UNSUPPORTED_MEDIA_TYPE",
    `Expected no body, or content-type: application/json in UTF-8 and not compressed, found ${type.slice(0, 64)}.`,
  );
