import { HttpException } from "@nestjs/common";
import { STATUS_CODES } from "node:http";

/** An RFC 9457 problem; `code` is stable and made for `switch`, `detail` is for people. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  /** What else belongs to the code, such as the `state` of a job. */
  [more: string]: unknown;
}

/** Makes a problem of the standard members; its title is the name of the status. */
export function problem(
  status: number,
  code: string,
  detail: string,
  more: Record<string, unknown> = {},
): Problem {
  return {
    type: "about:blank",
    title: STATUS_CODES[status] ?? "Error",
    status,
    code,
    detail,
    ...more,
  };
}

/** So many things that are wrong are told; whoever has made more does not read them. */
const MOST_PROBLEMS = 50;

/** What is wrong with a request, for people and one by one. */
export function told(problems: readonly string[]): { detail: string; problems: string[] } {
  const more = problems.length - MOST_PROBLEMS;
  const some = [...problems.slice(0, MOST_PROBLEMS), ...(more > 0 ? [`and ${more} more`] : [])];
  return { detail: `${some.join("; ")}.`, problems: some };
}

/** Ends a request with a problem. */
export class ProblemException extends HttpException {
  constructor(
    status: number,
    readonly code: string,
    detail: string,
    readonly more: Record<string, unknown> = {},
  ) {
    super(detail, status);
  }
}
