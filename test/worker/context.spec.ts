import { jest } from "@jest/globals";
import { ConsoleLogger, Logger } from "@nestjs/common";
import {
  JobInspector,
  JobQueue,
  type JobContext,
  LeaseLostError,
  defineJob,
  fixed,
} from "nestjs-pg-jobs";
import { z } from "zod";
import { Bench } from "../support/harness.js";
import { handler, reached, row } from "../support/handlers.js";
import { until } from "../support/until.js";

const SECRET = "hunter2";
type Fields = Pick<
  JobContext,
  "id" | "kind" | "queue" | "attempt" | "failures" | "attempts" | "isLast" | "idempotencyKey"
>;

const Three = defineJob<{ secret: string }>("three", {
  queue: "mail",
  attempts: 3,
  backoff: fixed("1ms", { jitter: 0 }),
});
const Visit = defineJob("visit", {
  attempts: 1,
  payload: z.object({
    at: z.iso.datetime().transform((text) => new Date(text)),
    n: z.int().max(5),
  }),
});
const Sent = defineJob("sent", {
  payload: z.object({ at: z.iso.datetime().transform((text) => new Date(text)) }),
});
const Odd = defineJob("odd", { attempts: 1, payload: z.unknown().transform(() => oddly()) });
const oddly = (): never => {
  throw Object.assign(new Error("the schema itself throws"), { message: null });
};
const Parent = defineJob<{ keys: (string | null)[] }>("parent");
const Stolen = defineJob("stolen");
const Child = defineJob<{ n: number }>("child");

describe("what handlers are given", () => {
  let bench: Bench;
  let jobs: JobQueue;
  let inspector: JobInspector;
  const seen: Fields[] = [];
  const lines: unknown[][] = [];
  const visits: unknown[] = [];
  const refusals: unknown[] = [];

  beforeAll(async () => {
    bench = await Bench.open();
    // What is off is not even made into a line; the apps of the bench have errors only.
    jest.spyOn(ConsoleLogger.prototype, "isLevelEnabled").mockReturnValue(true);
    for (const level of ["log", "warn", "error", "debug"] as const) {
      jest.spyOn(Logger.prototype, level).mockImplementation((...line: unknown[]) => {
        lines.push([level, ...line]);
      });
    }
    const app = await bench.worker(
      [
        handler(Sent, (_payload, job) => ({
          sent: job.payload,
          same: job.payload === job.payload,
        })),
        handler("changed", (payload, job) => {
          (payload as { n: number }).n++;
          return job.payload;
        }),
        handler(Three, (_payload, job) => {
          const { id, kind, queue, attempt, failures, attempts, isLast, idempotencyKey } = job;
          seen.push({ id, kind, queue, attempt, failures, attempts, isLast, idempotencyKey });
          job.logger.log("sending", { to: "somebody" });
          throw new Error("failed");
        }),
        handler(Visit, (visit) => void visits.push(visit)),
        handler(Odd, () => visits.push("never")),
        handler(Stolen, async (_payload, job) => {
          // As if its lease had run out, and another worker had taken it over.
          const [, number] = job.id.split("-");
          await bench.sql("update jobs.job set attempt = attempt + 1 where id = $1", [number]);
          refusals.push(await job.enqueue(Child, { n: 99 }).catch((error: unknown) => error));
          refusals.push(job.signal.reason);
          return "late";
        }),
        handler(Parent, async ({ keys }, { enqueue }) => {
          const answers = [];
          for (const [n, key] of keys.entries())
            answers.push(await enqueue(Child, { n }, { delay: "1h", key: key ?? undefined }));
          return answers;
        }),
      ],
      { queues: { mail: {}, default: {} } },
    );
    jobs = app.get(JobQueue);
    inspector = app.get(JobInspector);
  });
  afterAll(async () => {
    await bench.close();
    jest.restoreAllMocks();
  });

  it("the context tells which job, which run, and whether it is the last", async () => {
    const { id } = await jobs.enqueue(Three, { secret: SECRET });
    await reached(bench, id, "dead");
    const same = { id, kind: "three", queue: "mail", attempts: 3, idempotencyKey: id };
    expect(seen).toEqual([
      { ...same, attempt: 1, failures: 0, isLast: false },
      { ...same, attempt: 2, failures: 1, isLast: false },
      { ...same, attempt: 3, failures: 2, isLast: true },
    ]);
    expect(await jobs.requeue(id)).toBe("queued");
    await reached(bench, id, "dead", { attempt: 6 });
    // A new generation: attempts go on, failures begin anew, and the key stays.
    expect(seen.slice(3)).toEqual([
      { ...same, attempt: 4, failures: 0, isLast: false },
      { ...same, attempt: 5, failures: 1, isLast: false },
      { ...same, attempt: 6, failures: 2, isLast: true },
    ]);
  });

  it("log lines carry the job and attempt n/m, and no line a payload", () => {
    const [{ id }] = seen as [Fields];
    const about = { id, kind: "three", queue: "mail" };
    expect(lines).toContainEqual(["log", "sending", { ...about, attempt: "1/3", to: "somebody" }]);
    expect(lines).toContainEqual([
      "warn",
      "Job failed, will be retried",
      expect.objectContaining({ ...about, attempt: "2/3", error: "Error: failed" }),
    ]);
    expect(lines).toContainEqual([
      "error",
      "Job is dead",
      expect.objectContaining({ ...about, attempt: "3/3" }),
    ]);
    expect(JSON.stringify(lines)).not.toContain(SECRET);
  });

  it("the handler gets what the schema makes of the payload; what was sent is stored", async () => {
    const at = "2026-01-02T03:04:05.000Z";
    const { id } = await jobs.enqueue(Visit, { at, n: 1 });
    expect(await reached(bench, id, "succeeded")).toMatchObject({ payload: { at, n: 1 } });
    expect(visits).toEqual([{ at: new Date(at), n: 1 }]);
  });

  it("job.payload is what was sent, before the schema, and the same object whenever it is asked for", async () => {
    const at = "2026-01-02T03:04:05.000Z";
    const { id } = await jobs.enqueue(Sent, { at });
    expect((await reached(bench, id, "succeeded")).result).toEqual({ sent: { at }, same: true });
  });

  it("job.payload is not what the handler has changed", async () => {
    const { id } = await jobs.enqueue("changed", { n: 1 });
    expect((await reached(bench, id, "succeeded")).result).toEqual({ n: 1 });
  });

  it("a payload that no longer fits is a failure that says where", async () => {
    // An older release, or SQL, has enqueued it.
    const { id } = await jobs.enqueue("visit", { at: "yesterday", n: 9 }, { attempts: 1 });
    const dead = await reached(bench, id, "dead");
    expect(dead.last_error).toMatch(/fits the schema of "visit".*payload\.at, payload\.n/);
    expect((await inspector.attempts(id))[0]!.error).toMatchObject({ code: "PAYLOAD_INVALID" });
    expect(visits).toHaveLength(1);
  });

  it("a schema that throws is a failure", async () => {
    const { id } = await jobs.enqueue("odd", {}, { attempts: 1 });
    await reached(bench, id, "dead");
    expect(visits).not.toContain("never");
  });

  it("job.enqueue creates jobs, dedupes by key, and outlives the attempt", async () => {
    const { id } = await jobs.enqueue(Parent, { keys: ["a", "a", null, null] });
    const { result } = await reached(bench, id, "succeeded");
    const answers = result as { id: string; deduplicated: boolean }[];
    expect(answers.map(({ deduplicated }) => deduplicated)).toEqual([false, true, false, false]);
    expect(answers[1]!.id).toBe(answers[0]!.id);
    expect(new Set(answers.map((answer) => answer.id)).size).toBe(3);
    expect(await jobs.get(answers[0]!.id)).toMatchObject({ payload: { n: 0 }, key: "a" });
    expect(await jobs.get(answers[3]!.id)).toMatchObject({ payload: { n: 3 }, state: "queued" });
  });

  it("an attempt in other hands can enqueue nothing, is told to stop, and writes nothing", async () => {
    const { id } = await jobs.enqueue(Stolen);
    await until(() => refusals.length === 2, { what: "it is refused" });
    for (const refusal of refusals) expect(refusal).toBeInstanceOf(LeaseLostError);
    expect(refusals[0]).toMatchObject({ id, attempt: 1 });
    const children = "select 1 from jobs.job_status where payload = '{\"n\": 99}'";
    expect(await bench.sql(children)).toEqual([]);
    expect(await row(bench, id)).toMatchObject({ state: "running", attempt: 2, result: null });
  });
});
