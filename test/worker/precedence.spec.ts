import { JobQueue, defineJob, fixed } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";

const minutes = (n: number) => fixed(`${n}m`, { jitter: 0 });

const Said = defineJob("said", { attempts: 3, timeout: "3m", backoff: minutes(3) });
const Handled = defineJob("handled");
const Left = defineJob("left");

/** What the levels say: a call 2, a definition 3, a handler 4, the module 6. */
describe("call > definition > handler > module default", () => {
  let bench: Bench;
  let jobs: JobQueue;
  /** By job: what the context said. */
  const seen = new Map<string, { attempts: number; isLast: boolean; timeoutMs: number }>();

  beforeAll(async () => {
    bench = await Bench.open();
    const fails = (definition: typeof Said, options?: object) =>
      handler(
        definition,
        (_payload, job) => {
          const { attempts, isLast, timeoutMs } = job as typeof job & { timeoutMs: number };
          seen.set(job.id, { attempts, isLast, timeoutMs });
          throw new Error("failed");
        },
        options,
      );
    const own = { attempts: 4, timeout: "4m", backoff: minutes(4) };
    const app = await bench.worker(
      [fails(Said, own), fails(Handled, own), fails(Left)],
      { poll: "100ms" },
      { defaults: { attempts: 6, timeout: "6m", backoff: minutes(6) } },
    );
    jobs = app.get(JobQueue);
  });
  afterAll(async () => await bench.close());

  it.each([
    { definition: Said, call: { attempts: 2, timeout: "2m" }, attempts: 2, timeout: 2, wait: 3 },
    { definition: Said, call: {}, attempts: 3, timeout: 3, wait: 3 },
    { definition: Handled, call: { attempts: 2 }, attempts: 2, timeout: 4, wait: 4 },
    { definition: Handled, call: {}, attempts: 4, timeout: 4, wait: 4 },
    { definition: Left, call: { timeout: "2m" }, attempts: 6, timeout: 2, wait: 6 },
    { definition: Left, call: {}, attempts: 6, timeout: 6, wait: 6 },
  ])(
    "$definition.kind, called with $call",
    async ({ definition, call, attempts, timeout, wait }) => {
      const { id } = await jobs.enqueue(definition, {}, call);
      const { due_in } = await reached(bench, id, "queued", { attempt: 1 });
      expect(due_in / 60_000).toBeCloseTo(wait, 0);
      expect(seen.get(id)).toEqual({ attempts, isLast: false, timeoutMs: timeout * 60_000 });
      // The limit that was told is the one that holds.
      for (let failures = 1; failures < attempts; failures++) {
        await reached(bench, id, "queued", { attempt: failures });
        await bench.age(id, "10 min");
      }
      expect(await reached(bench, id, "dead")).toMatchObject({
        failures: attempts,
        attempt: attempts,
      });
      expect(seen.get(id)).toMatchObject({ isLast: true });
    },
  );

  it("stores only what call or definition said", async () => {
    const said = async (definition: typeof Said, options = {}) => {
      const { id } = await jobs.enqueue(definition, {}, { delay: "1h", ...options });
      return (await jobs.get(id))!.attempts;
    };
    expect(await said(Said, { attempts: 2 })).toBe(2);
    expect(await said(Said)).toBe(3);
    expect(await said(Handled)).toBeNull();
    expect(await said(Left)).toBeNull();
  });
});
