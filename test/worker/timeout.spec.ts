import { setTimeout } from "node:timers/promises";
import { JobInspector, JobQueue, JobTimeoutError, defineJob, skip, snooze } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

/** Ends when its signal aborts. */
const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));

describe("timeouts", () => {
  let bench: Bench;
  let jobs: JobQueue;
  let inspector: JobInspector;
  const reasons: unknown[] = [];
  const stuck = new Gate();
  const starts: number[] = [];

  const once = { attempts: 1, timeout: "300ms" };
  const Heeds = defineJob<"rethrow" | "own" | "skip" | "snooze">("heeds", once);
  const Late = defineJob("late", once);
  const Long = defineJob("long", { ...once, timeout: "100d" });
  const Stuck = defineJob("stuck", { ...once, queue: "narrow" });
  const Buried = defineJob("buried", { ...once, attempts: 5, buryOn: [JobTimeoutError] });

  beforeAll(async () => {
    bench = await Bench.open();
    const app = await bench.worker(
      [
        handler(Heeds, async (what, { signal }) => {
          await aborted(signal);
          reasons.push(signal.reason);
          if (what === "skip") throw skip("out of time");
          if (what === "snooze") throw snooze("10m");
          throw what === "own" ? new Error("interrupted") : signal.reason;
        }),
        handler(Late, async (_payload, { signal }) => {
          await aborted(signal);
          return "made it";
        }),
        handler(Buried, async (_payload, { signal }) => {
          await aborted(signal);
          signal.throwIfAborted();
        }),
        handler(Long, async (_payload, { signal }) => {
          const late = aborted(signal).then(() => true);
          return await Promise.race([late, setTimeout(100, false)]);
        }),
        handler(Stuck, async () => {
          starts.push(performance.now());
          if (starts.length === 1) await stuck.opened;
        }),
      ],
      { queues: { default: {}, narrow: { concurrency: 1, prefetch: 1 } } },
    );
    jobs = app.get(JobQueue);
    inspector = app.get(JobInspector);
  });
  afterAll(async () => {
    stuck.open();
    await bench.close();
  });

  it.each(["rethrow", "own"] as const)(
    "a handler that heeds the signal fails at once, by timeout (%s)",
    async (what) => {
      const from = performance.now();
      const { id } = await jobs.enqueue(Heeds, what);
      expect(await reached(bench, id, "dead")).toMatchObject({ failures: 1 });
      expect(performance.now() - from).toBeGreaterThan(299);
      expect(performance.now() - from).toBeLessThan(4_000);
      expect(reasons.at(-1)).toBeInstanceOf(JobTimeoutError);
      const [attempt] = await inspector.attempts(id);
      expect(attempt!.error).toMatchObject({ name: "JobTimeoutError", code: "TIMEOUT" });
      expect(attempt!.error.message).toContain("300 ms");
    },
  );

  it("a verdict counts after the timeout too, thrown as well as returned", async () => {
    const { id } = await jobs.enqueue(Heeds, "skip");
    await reached(bench, id, "skipped");
    const { id: other } = await jobs.enqueue(Heeds, "snooze");
    expect(await reached(bench, other, "queued", { attempt: 1 })).toMatchObject({ failures: 0 });
  });

  it("a value that comes within 5 s counts", async () => {
    const { id } = await jobs.enqueue(Late);
    expect((await reached(bench, id, "succeeded")).result).toBe("made it");
  });

  it("may stand in buryOn", async () => {
    const { id } = await jobs.enqueue(Buried);
    expect(await reached(bench, id, "dead")).toMatchObject({ failures: 1 });
  });

  it("a call's timeout wins", async () => {
    const from = performance.now();
    const { id } = await jobs.enqueue(Heeds, "own", { timeout: "1500ms" });
    await reached(bench, id, "dead");
    expect(performance.now() - from).toBeGreaterThan(1_499);
  });

  it("one beyond the longest timer of Node is not over at once", async () => {
    const { id } = await jobs.enqueue(Long);
    expect((await reached(bench, id, "succeeded")).result).toBe(false);
  });

  it("one that does not heed it fails 5 s later, while its slot stays taken", async () => {
    const from = performance.now();
    const { id } = await jobs.enqueue(Stuck);
    await until(() => starts.length === 1, { what: "it starts" });
    const { id: next } = await jobs.enqueue(Stuck);
    await reached(bench, id, "dead");
    expect(performance.now() - from).toBeGreaterThan(5_290);
    // Claimed, or waiting: in no case started.
    expect(starts).toHaveLength(1);
    stuck.open();
    await reached(bench, next, "succeeded");
    expect(starts).toHaveLength(2);
    // What came after the failure changes nothing.
    expect(await bench.state(id)).toBe("dead");
  });
});
