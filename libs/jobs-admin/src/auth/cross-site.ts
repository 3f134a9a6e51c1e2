import { ProblemException } from "../problem.js";
import { type RawRequest, hostOf } from "../request/raw-request.js";

const SAFE = ["GET", "HEAD", "OPTIONS"];
const OURS = ["same-origin", "none"];

/**
 * A browser sends cookies, and whatever else it keeps for a host, with the requests of strangers' pages too: what changes
 * something must come from a page of this origin. A bearer token is sent by who knows it.
 * @throws ProblemException with 403
 */
export function refuseCrossSite(request: RawRequest): void {
  const { method = "", headers } = request;
  if (SAFE.includes(method) || /^Bearer /i.test(headers.authorization ?? "")) return;
  const site = headers["sec-fetch-site"];
  if (typeof site === "string") {
    if (OURS.includes(site)) return;
  } else if (headers.origin !== undefined) {
    if (hostIn(headers.origin) === hostOf(request)) return;
  } else if (headers.cookie === undefined || headers.authorization !== undefined) return;
  throw new ProblemException(
    403,
    "CROSS_SITE",
    "Expected a request from a page of this origin (Sec-Fetch-Site: same-origin, or an Origin equal to Host), or one with an Authorization header and no cookies.",
  );
}

const hostIn = (origin: string): string | undefined =>
  URL.canParse(origin) ? new URL(origin).host : undefined;
