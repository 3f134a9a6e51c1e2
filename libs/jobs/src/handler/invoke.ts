import { validate } from "../job/standard-schema.js";
import type { Result } from "../job/verdict.js";
import type { Handler } from "./handler.js";
import type { JobContext } from "./job-context.js";

/** Runs a handler on a payload (JSON text) and says how it ended; never rejects, whatever is thrown. */
export async function invoke(handler: Handler, payload: string, job: JobContext): Promise<Result> {
  try {
    const { payload: schema, kind } = handler.definition;
    const sent: unknown = JSON.parse(payload);
    const input = schema === null ? sent : await validate(schema, sent, kind);
    return { type: "returned", value: await handler.run(input, job) };
  } catch (error) {
    return { type: "threw", error };
  }
}
