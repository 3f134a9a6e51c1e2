import type { IncomingMessage } from "node:http";

/** Node's own request; what Express and the middleware of Fastify leave on it. */
export type RawRequest = IncomingMessage & { originalUrl?: string };

/** A request as a route sees it: Express's own is Node's, Fastify's has that inside. */
export interface AnyRequest {
  raw?: RawRequest;
  /** Where it comes from, by the app's word on proxies. */
  ip?: string;
  /** What the parser of the app has made of its body. */
  body?: unknown;
  /** What stands in its path. */
  params?: Record<string, string>;
}

export const paramsOf = ({ params = {} }: AnyRequest): Record<string, string> => params;

export const rawOf = (request: AnyRequest): RawRequest => request.raw ?? (request as RawRequest);

/** The path and the query that the client sent. */
export function addressOf(request: RawRequest): { path: string; query: string } {
  const url = request.originalUrl ?? request.url ?? "";
  const mark = url.indexOf("?");
  return mark < 0
    ? { path: url, query: "" }
    : { path: url.slice(0, mark), query: url.slice(mark + 1) };
}

/** The path as routers take it: without an origin, up to a mark, its characters decoded. */
export function routedPath(request: RawRequest): string {
  const path = addressOf(request)
    .path.replace(/^https?:\/\/[^/]*/i, "")
    .replace(/#.*$/s, "");
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/** The name that the client has for this server; HTTP/2 has it in another place. */
export const hostOf = ({ headers }: RawRequest): string =>
  (headers.host ?? (headers[":authority"] as string | undefined) ?? "").toLowerCase();
