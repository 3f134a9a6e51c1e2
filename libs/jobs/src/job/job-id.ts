import { BadJobIdError } from "./errors.js";
import { describe } from "./options-check.js";

/** The two halves of a job id: its queue, and its number there (a bigint as decimal text). */
export interface JobId {
  readonly queueId: number;
  readonly number: string;
}

const TEXT = /^(0|[1-9]\d{0,9})-(0|[1-9]\d{0,18})$/;
const MAX_INT = 2_147_483_647;
const MAX_BIGINT = "9223372036854775807";

/** The public id of a job, e.g. `'7-1048577'`; opaque to users. */
export function formatJobId(queueId: number, number: string): string {
  return `${queueId}-${number}`;
}

/** Reads a public id back. @throws BadJobIdError unless it is exactly what {@link formatJobId} makes. */
export function parseJobId(text: string): JobId {
  const match = typeof text === "string" && text.length <= 30 ? TEXT.exec(text) : null;
  if (match) {
    const queueId = Number(match[1]);
    const number = match[2]!;
    // equal lengths compare as numbers do
    const fits = number.length < MAX_BIGINT.length || number <= MAX_BIGINT;
    if (queueId <= MAX_INT && fits) return { queueId, number };
  }
  throw new BadJobIdError(describe(text));
}
