import { JobInspector, JobQueue, bury, defineJob, fixed, skip, snooze } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";

class Temporary extends Error {}
class Timeout extends Temporary {}
class Fatal extends Error {}

type Step = "snooze" | "skip" | "bury" | "fail" | "succeed" | "temporary" | "timeout" | "fatal";
const ENDS: Record<Step, () => unknown> = {
  snooze: () => snooze("10m"),
  skip: () => skip("nothing to do"),
  bury: () => bury("mailbox gone"),
  succeed: () => "done",
  fail: () => new Error("failed"),
  temporary: () => new Temporary("temporary"),
  timeout: () => new Timeout("timeout"),
  fatal: () => new Fatal("fatal"),
};

describe("verdicts", () => {
  let bench: Bench;
  let jobs: JobQueue;
  let inspector: JobInspector;

  const backoff = fixed("10m", { jitter: 0 });
  const Plain = defineJob<{ by: "return" | "throw"; steps: Step[] }>("plain", {
    backoff,
    attempts: 2,
  });
  const OnlyTemporary = defineJob<Step>("retry-on", { backoff, retryOn: [Temporary] });
  const NeverFatal = defineJob<Step>("bury-on", { backoff, buryOn: [Fatal] });
  const Both = defineJob<Step>("both", { backoff, retryOn: [Temporary], buryOn: [Timeout] });
  const Odd = defineJob<Step>("odd", {
    backoff,
    retryOn: [
      class extends Error {
        static override [Symbol.hasInstance](): boolean {
          throw new Error("hasInstance throws");
        }
      },
      Temporary,
    ],
  });

  beforeAll(async () => {
    bench = await Bench.open();
    const fail = (step: Step) => {
      throw ENDS[step]();
    };
    const plain = handler(Plain, ({ by, steps }, job) => {
      const end = ENDS[steps[job.attempt - 1]!]();
      if (by === "throw") throw end;
      return end;
    });
    const others = [OnlyTemporary, NeverFatal, Both, Odd].map((one) => handler(one, fail));
    const app = await bench.worker([plain, ...others], { poll: "100ms" });
    jobs = app.get(JobQueue);
    inspector = app.get(JobInspector);
  });
  afterAll(async () => await bench.close());

  describe.each(["return", "throw"] as const)("by %s", (by) => {
    it("snooze: queued for later, no failure counted, however often", async () => {
      const { id } = await jobs.enqueue(Plain, {
        by,
        steps: ["snooze", "snooze", "snooze", "skip"],
      });
      for (const attempt of [1, 2, 3]) {
        const found = await reached(bench, id, "queued", { attempt });
        expect(found).toMatchObject({ failures: 0, attempt, last_error: null });
        expect(found.due_in / 60_000).toBeCloseTo(10, 0);
        await bench.age(id, "11 min");
      }
      await reached(bench, id, "skipped");
      expect(await inspector.attempts(id)).toEqual([]);
    });

    it("skip: finished, with the reason as result", async () => {
      const { id } = await jobs.enqueue(Plain, { by, steps: ["skip"] });
      expect(await reached(bench, id, "skipped")).toMatchObject({
        result: { reason: "nothing to do" },
        failures: 0,
      });
    });

    it("bury: dead at once, with the reason as error and one attempt to read", async () => {
      const { id } = await jobs.enqueue(Plain, { by, steps: ["bury"] });
      expect(await reached(bench, id, "dead")).toMatchObject({ last_error: "mailbox gone" });
      expect(await inspector.attempts(id)).toMatchObject([
        { attempt: 1, error: { message: "mailbox gone" } },
      ]);
    });
  });

  it("an error is a failure; the last one is death, and requeue makes a new generation", async () => {
    const steps: Step[] = ["fail", "snooze", "fail", "succeed"];
    const { id } = await jobs.enqueue(Plain, { by: "throw", steps });
    for (const attempt of [1, 2]) {
      expect(await reached(bench, id, "queued", { attempt })).toMatchObject({ failures: 1 });
      await bench.age(id, "11 min");
    }
    expect(await reached(bench, id, "dead")).toMatchObject({ failures: 2, attempt: 3 });
    expect((await inspector.attempts(id)).map(({ attempt }) => attempt)).toEqual([1, 3]);
    expect(await jobs.requeue(id)).toBe("queued");
    // It throws "done": a failure again, the first of the new generation.
    expect(await reached(bench, id, "queued", { attempt: 4 })).toMatchObject({
      failures: 1,
      attempt: 4,
    });
  });

  it.each([
    { definition: OnlyTemporary, step: "temporary", state: "queued" },
    { definition: OnlyTemporary, step: "timeout", state: "queued" },
    { definition: OnlyTemporary, step: "fail", state: "dead" },
    { definition: OnlyTemporary, step: "snooze", state: "queued" },
    { definition: NeverFatal, step: "fatal", state: "dead" },
    { definition: NeverFatal, step: "fail", state: "queued" },
    { definition: Both, step: "temporary", state: "queued" },
    { definition: Both, step: "timeout", state: "dead" },
    { definition: Both, step: "fail", state: "dead" },
    { definition: Odd, step: "temporary", state: "queued" },
    { definition: Odd, step: "fail", state: "dead" },
  ] as const)("$definition.kind: $step → $state", async ({ definition, step, state }) => {
    const { id } = await jobs.enqueue(definition, step);
    const failures = step === "snooze" ? 0 : 1;
    expect(await reached(bench, id, state)).toMatchObject({ failures, attempt: 1 });
  });
});
