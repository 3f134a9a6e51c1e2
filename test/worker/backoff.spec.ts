import {
  type Backoff,
  JobQueue,
  defineJob,
  exponential,
  fixed,
  linear,
  steps,
} from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";

const MINUTE = 60_000;

class Busy extends Error {
  constructor(readonly retryAfter: number) {
    super("busy");
  }
}

const own = (delay: Backoff["delay"]): Backoff => ({ delay });

/** The waits after the first, second … failure, as [shortest, longest] in minutes. */
const CASES: { what: string; backoff: Backoff; waits: [number, number][] }[] = [
  {
    what: "fixed",
    backoff: fixed("10m", { jitter: 0 }),
    waits: [
      [10, 10],
      [10, 10],
    ],
  },
  {
    what: "linear",
    backoff: linear({ first: "10m", step: "5m", max: "18m", jitter: 0 }),
    waits: [
      [10, 10],
      [15, 15],
      [18, 18],
    ],
  },
  {
    what: "steps",
    backoff: steps("1m", "5m"),
    waits: [
      [1, 1],
      [5, 5],
      [5, 5],
    ],
  },
  {
    what: "exponential",
    backoff: exponential({ first: "10m", factor: 3, max: "60m", jitter: 0 }),
    waits: [
      [10, 10],
      [30, 30],
      [60, 60],
    ],
  },
  {
    what: "exponential with jitter, which only lengthens",
    backoff: exponential({ first: "10m", jitter: 0.5 }),
    waits: [
      [10, 15],
      [20, 30],
    ],
  },
  {
    what: "one of one's own, by failures and error",
    backoff: own((failures, error) => failures * (error as Busy).retryAfter),
    waits: [
      [7, 7],
      [14, 14],
    ],
  },
  {
    what: "one that throws: exponential() instead",
    backoff: own(() => {
      throw new Error("no idea");
    }),
    waits: [[10 / 60, 11 / 60]],
  },
  {
    what: "one that says NaN: exponential() instead",
    backoff: own(() => NaN),
    waits: [[1 / 6, 0.184]],
  },
  {
    what: "one that says -1: exponential() instead",
    backoff: own(() => -1),
    waits: [[1 / 6, 0.184]],
  },
  {
    what: "one that says no number: exponential() instead",
    backoff: own(() => "soon" as never),
    waits: [[1 / 6, 0.184]],
  },
  {
    what: "one that says for ever: ten years",
    backoff: own(() => Number.MAX_VALUE),
    waits: [[3650 * 1440, 3653 * 1440]],
  },
];
const definitions = CASES.map(({ backoff }, index) =>
  defineJob(`backoff.${index}`, { backoff, attempts: 10 }),
);

describe("backoff, as the view shows it", () => {
  let bench: Bench;
  let jobs: JobQueue;
  beforeAll(async () => {
    bench = await Bench.open();
    const fail = () => {
      throw new Busy(7 * MINUTE);
    };
    const app = await bench.worker(definitions.map((definition) => handler(definition, fail)));
    jobs = app.get(JobQueue);
  });
  afterAll(async () => await bench.close());

  it.each(CASES.map((one, index) => ({ ...one, index })))("$what", async ({ waits, index }) => {
    const { id } = await jobs.enqueue(definitions[index]!);
    for (const [failures, [least, most]] of waits.entries()) {
      const attempt = failures + 1;
      const { due_in, ...found } = await reached(bench, id, "queued", { attempt });
      expect(found).toMatchObject({ failures: attempt, attempt, last_error: "busy" });
      // Some of the wait has passed, and clocks of different processors differ.
      expect(due_in).toBeGreaterThan(least * MINUTE - 5_000);
      expect(due_in).toBeLessThan(most * MINUTE + 100);
      if (attempt < waits.length) await bench.age(id, `${due_in + 1} ms`);
    }
  });

  it("runs again when its time has come, and not before", async () => {
    const times: number[] = [];
    const definition = defineJob("backoff.short", { backoff: fixed("300ms", { jitter: 0 }) });
    const app = await bench.worker([
      handler(definition, () => {
        times.push(performance.now());
        if (times.length < 3) throw new Error("again");
      }),
    ]);
    const { id } = await app.get(JobQueue).enqueue(definition);
    await reached(bench, id, "succeeded");
    for (const i of [1, 2]) expect(times[i]! - times[i - 1]!).toBeGreaterThanOrEqual(299);
  });
});
