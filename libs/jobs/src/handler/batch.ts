import { validate } from "../job/standard-schema.js";
import { type Result, isVerdict } from "../job/verdict.js";
import type { Handler } from "./handler.js";
import type { JobContext } from "./job-context.js";

/** One job of a batch. */
export interface BatchItem<P = unknown> {
  /** What a handler of single jobs would get. */
  readonly payload: P;
  /** The job, and what can be done in its name. */
  readonly job: JobContext;
}

interface Entry {
  readonly payload: string;
  readonly job: JobContext;
  readonly end: (result: Result) => void;
}

/** One call of a batch handler; each of its jobs ends on its own. */
export class Batch {
  readonly #entries: Entry[] = [];

  constructor(private readonly handler: Handler) {}

  /** Takes part in the call; resolves with how this job ended, never rejects. */
  join(payload: string, job: JobContext): Promise<Result> {
    return new Promise((end) => this.#entries.push({ payload, job, end }));
  }

  /** Calls the handler with those that have joined. */
  async run(): Promise<void> {
    const read = await Promise.all(this.#entries.map((entry) => this.#read(entry)));
    const entries = read.filter((one) => one !== undefined);
    if (entries.length === 0) return;
    const results = await this.#call(entries.map(({ item }) => item));
    entries.forEach(({ end }, index) => end(results[index]!));
  }

  /** A payload that does not fit fails its own job only. */
  async #read({ payload, job, end }: Entry) {
    try {
      const { payload: schema, kind } = this.handler.definition;
      const sent: unknown = JSON.parse(payload);
      const item: BatchItem = {
        payload: schema === null ? sent : await validate(schema, sent, kind),
        job,
      };
      return { item, end };
    } catch (error) {
      end({ type: "threw", error });
      return undefined;
    }
  }

  async #call(items: readonly BatchItem[]): Promise<Result[]> {
    try {
      const outcomes = await this.handler.run(items, items[0]!.job);
      return await resultsOf(outcomes, items.length);
    } catch (error) {
      return items.map(() => ({ type: "threw", error }));
    }
  }
}

/** Nothing at all, or a verdict, is meant for each of them. */
async function resultsOf(outcomes: unknown, count: number): Promise<Result[]> {
  if (outcomes === undefined || isVerdict(outcomes))
    return Array.from({ length: count }, () => ({ type: "returned", value: outcomes }));
  // An async function for each item: what it rejects with is the outcome of that item.
  const settled = Array.isArray(outcomes) ? await Promise.allSettled(outcomes) : [];
  if (!Array.isArray(outcomes) || outcomes.length !== count) {
    const found = Array.isArray(outcomes) ? String(outcomes.length) : typeof outcomes;
    throw new TypeError(
      `outcome of a batch: expected nothing, or a list with an outcome for each of its ${count} jobs, in order, found ${found}`,
    );
  }
  return settled.map((one) => {
    if (one.status === "rejected") return { type: "threw", error: one.reason as unknown };
    const value: unknown = one.value;
    return value instanceof Error && !isVerdict(value)
      ? { type: "threw", error: value }
      : { type: "returned", value };
  });
}
