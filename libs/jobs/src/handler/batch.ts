import { describe } from "../job/options-check.js";
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
    const outcomes = await this.#call(entries.map(({ item }) => item));
    // One that takes longer keeps none of the others.
    entries.forEach(({ end }, index) => void resultOf(outcomes[index]).then(end));
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

  /** The outcome of each of them, or a promise for it. */
  async #call(items: readonly BatchItem[]): Promise<unknown[]> {
    // The list is the handler's: it may empty it.
    const count = items.length;
    try {
      return outcomesOf(await this.handler.run(items, items[0]!.job), count);
    } catch (error) {
      return Array.from({ length: count }, () => quiet(Promise.reject(error as Error)));
    }
  }
}

/** Nothing at all, or a verdict, is meant for each of them. */
function outcomesOf(outcomes: unknown, count: number): unknown[] {
  if (outcomes === undefined || isVerdict(outcomes))
    return Array.from({ length: count }, () => outcomes);
  const list = Array.isArray(outcomes) ? outcomes.map(quiet) : undefined;
  if (list?.length === count) return list;
  const found = list ? `a list of ${list.length}` : describe(outcomes);
  throw new TypeError(
    `outcome of a batch: expected nothing, or a list with an outcome for each of its ${count} jobs, in order, found ${found}`,
  );
}

/** Its rejection is heard of later, or not at all. */
function quiet(outcome: unknown): unknown {
  void Promise.resolve(outcome).catch(() => undefined);
  return outcome;
}

/** An async function for each item: what it rejects with is the outcome of that item. */
async function resultOf(outcome: unknown): Promise<Result> {
  try {
    const value: unknown = await outcome;
    return value instanceof Error && !isVerdict(value)
      ? { type: "threw", error: value }
      : { type: "returned", value };
  } catch (error) {
    return { type: "threw", error };
  }
}
