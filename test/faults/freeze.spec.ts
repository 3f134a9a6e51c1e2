import type { JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, VERBS, type Verb, WorkerProcess } from "../support/worker-process.js";

const LEASE_MS = 2_000;
const FROZEN_MS = 6_000;
/** Beyond a renewal's time: the machine may be busy, or stand still for a while. */
const SLACK_MS = 8_000;

/** One job: what the frozen worker tries with it afterwards, and when. */
interface Case {
  id: string;
  verb: Verb;
  /** Only after its signal has told it; else as soon as it runs again. */
  afterAbort: boolean;
  /** How the other one has left it. */
  left: string;
}

describe("a worker frozen by SIGSTOP while another takes over", () => {
  let bench: Bench;
  let log: TransitionLog;
  let ledger: Ledger;
  let jobs: JobQueue;
  /** Is frozen, and takes over. */
  let frozen: WorkerProcess;
  let other: WorkerProcess;
  const made: string[] = [];

  beforeAll(async () => {
    bench = await Bench.open();
    log = await TransitionLog.install(bench);
    ledger = new Ledger();
    jobs = await bench.producer();
    [frozen, other] = (await WorkerProcess.startAll(2, {
      url: bench.url,
      schema: bench.schema,
      ledger,
      queues: { default: { concurrency: 100, prefetch: 0 } },
      lease: `${LEASE_MS}ms`,
    })) as [WorkerProcess, WorkerProcess];
    await other.seasoned();
  }, 60_000);
  afterAll(async () => {
    await Promise.all([frozen, other].map((worker) => worker.end()));
    await log.remove();
    await bench.close();
    ledger.remove();
  });

  /** A job of each verb for each of `lefts`, all at their gates in the worker that is frozen then. */
  async function freeze(lefts: readonly string[]): Promise<Case[]> {
    const plan = lefts.flatMap((left) =>
      VERBS.flatMap((verb) => [false, true].map((afterAbort) => ({ verb, afterAbort, left }))),
    );
    other.stop(); // so that it claims none of them
    const enqueued = await jobs.enqueueMany(
      "task",
      plan.map(() => ({ do: "gate" })),
    );
    const cases = plan.map((one, index) => ({ ...one, id: enqueued[index]!.id }));
    made.push(...cases.map(({ id }) => id));
    await Promise.all(cases.map(({ id }) => frozen.atGate(id)));
    frozen.stop();
    other.cont();
    return cases;
  }

  /** It runs again, and tries. Answers when that was. */
  async function thaw(cases: readonly Case[]): Promise<number> {
    for (const { id, verb, afterAbort } of cases) frozen.tell(id, verb, { afterAbort });
    const at = Date.now();
    frozen.cont();
    const first = new Set(cases.map(({ id }) => id));
    const ended = () =>
      ledger
        .lines()
        .filter(
          ({ what, attempt, pid, id }) =>
            what === "end" && attempt === 1 && pid === frozen.pid && first.has(id),
        ).length === cases.length;
    await until(ended, { timeout: 30_000, what: "all old bodies have ended" });
    // What the process says of it comes later than what it writes.
    const told = ({ id }: Case) =>
      frozen.heard("lost", id).length > 0 &&
      frozen.aborted.some((one) => one.id === id && one.attempt === 1);
    await until(() => cases.every(told), { what: "it has said so of all" });
    return at;
  }

  /** All that the database says of a job, without what renewals move. */
  async function story(id: string): Promise<object> {
    const [queueId, number] = id.split("-");
    const rows = async (sql: string) => await bench.sql(sql, [queueId, number]);
    const [children] = await bench.sql<{ n: number }>(
      "select count(*)::int as n from jobs.job_status where kind = 'child' and payload ->> 'of' = $1",
      [id],
    );
    return {
      job: await rows(
        "select (to_jsonb(j) - 'lease_until')::text from jobs.job j where queue_id = $1 and id = $2",
      ),
      done: await rows("select to_jsonb(d)::text from jobs.done d where queue_id = $1 and id = $2"),
      dead: await rows("select to_jsonb(d)::text from jobs.dead d where queue_id = $1 and id = $2"),
      errors: await rows(
        "select to_jsonb(e)::text from jobs.attempt_error e where queue_id = $1 and job_id = $2 order by attempt",
      ),
      children,
    };
  }

  const stories = async (cases: readonly Case[]) =>
    new Map(await Promise.all(cases.map(async (one) => [one.id, await story(one.id)] as const)));

  /** What has to hold for each job, whatever was tried. */
  function judge(
    cases: () => readonly Case[],
    before: () => Map<string, object>,
    after: () => Map<string, object>,
    thawedAt: () => number,
  ): void {
    it.each(VERBS)("%s: row, history and children stay as the other has left them", (verb) => {
      const mine = cases().filter((one) => one.verb === verb);
      expect(mine.length).toBeGreaterThan(0);
      for (const { id, left } of mine)
        expect([left, after().get(id)]).toEqual([left, before().get(id)]);
    });

    it("each is lost once", async () => {
      for (const { id, verb, afterAbort, left } of cases())
        expect([verb, afterAbort, left, frozen.heard("lost", id).length]).toEqual([
          verb,
          afterAbort,
          left,
          1,
        ]);
      expect((await frozen.report()).lost).toBe(frozen.heard("lost").length);
    });

    it("the signal aborts with LeaseLostError within a renewal", () => {
      for (const { id } of cases()) {
        const mine = frozen.aborted.filter((one) => one.id === id && one.attempt === 1);
        expect(mine).toMatchObject([{ reason: "LeaseLostError" }]);
        expect(mine[0]!.at - thawedAt()).toBeLessThan(LEASE_MS / 3 + SLACK_MS);
      }
    });

    it("enqueue through the job rejects with LeaseLostError", () => {
      const mine = cases().filter(({ verb }) => verb === "enqueue");
      for (const { id } of mine)
        expect(frozen.called.filter((one) => one.id === id && one.attempt === 1)).toMatchObject([
          { answer: "LeaseLostError" },
        ]);
    });
  }

  describe("and finishes, puts off or still runs the job", () => {
    let cases: Case[];
    let before: Map<string, object>;
    let after: Map<string, object>;
    let thawedAt: number;

    beforeAll(async () => {
      cases = await freeze(["finished", "put off", "running"]);
      const frozenAt = Date.now();
      await Promise.all(cases.map(({ id }) => other.atGate(id, 2)));
      for (const { id, left, verb } of cases) {
        if (left === "finished") other.tell(id, verb === "enqueue" ? "enqueue" : "return");
        if (left === "put off") other.tell(id, "snooze");
      }
      await until(async () => (await other.report()).running === cases.length / 3, {
        what: "the other has settled what it was told to",
      });
      await until(async () => (await bench.states()).succeeded === cases.length / 3, {
        what: "and what it has finished has succeeded",
      });
      await until(() => Date.now() - frozenAt >= FROZEN_MS, { what: "it was frozen for 6 s" });
      before = await stories(cases);
      thawedAt = await thaw(cases);
      after = await stories(cases);
    }, 120_000);

    judge(
      () => cases,
      () => before,
      () => after,
      () => thawedAt,
    );

    it("the other goes on with what it runs", async () => {
      const running = cases.filter(({ left }) => left === "running");
      for (const { id } of running) other.tell(id, "return");
      for (const { id } of running) {
        await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
        expect(await jobs.get(id)).toMatchObject({ attempt: 2, result: "returned by attempt 2" });
      }
    });
  });

  describe("and buries it, and a person sends it again", () => {
    /** The other buries all; then they are sent again. */
    async function buryAndRequeue(cases: readonly Case[], beforeRequeue: () => void) {
      await Promise.all(cases.map(({ id }) => other.atGate(id, 2)));
      for (const { id } of cases) other.tell(id, "bury");
      for (const { id } of cases)
        await until(async () => (await bench.state(id)) === "dead", { what: `${id} is dead` });
      beforeRequeue();
      for (const { id } of cases) expect(await jobs.requeue(id)).toBe("queued");
    }

    describe("to the other", () => {
      let cases: Case[];
      let before: Map<string, object>;
      let after: Map<string, object>;
      let thawedAt: number;

      beforeAll(async () => {
        cases = await freeze(["running"]);
        await buryAndRequeue(cases, () => {});
        await Promise.all(cases.map(({ id }) => other.atGate(id, 3)));
        before = await stories(cases);
        thawedAt = await thaw(cases);
        after = await stories(cases);
      }, 120_000);

      judge(
        () => cases,
        () => before,
        () => after,
        () => thawedAt,
      );

      it("which finishes the new generation", async () => {
        for (const { id } of cases) other.tell(id, "return");
        for (const { id } of cases) {
          await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
          expect(await jobs.get(id)).toMatchObject({ attempt: 3, result: "returned by attempt 3" });
        }
      });
    });

    describe("to the one that was frozen, which still has the old body", () => {
      let cases: Case[];
      let thawedAt: number;

      beforeAll(async () => {
        cases = await freeze(["queued"]);
        await buryAndRequeue(cases, () => other.stop());
        thawedAt = await thaw(cases);
        other.cont();
      }, 120_000);

      it("runs the new generation in a body of its own", async () => {
        for (const { id } of cases) {
          await Promise.race([frozen.atGate(id, 3), other.atGate(id, 3)]);
          await until(async () => (await bench.state(id)) === "running", { what: "it runs" });
        }
        for (const { id } of cases) {
          frozen.tell(id, "return");
          other.tell(id, "return");
        }
        for (const { id } of cases) {
          await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
          expect(await jobs.get(id)).toMatchObject({ attempt: 3, result: "returned by attempt 3" });
        }
      });

      it("and tells the old body that it is lost", () => {
        for (const { id } of cases) {
          expect(frozen.heard("lost", id)).toHaveLength(1);
          const mine = frozen.aborted.filter((one) => one.id === id && one.attempt === 1);
          expect(mine).toMatchObject([{ reason: "LeaseLostError" }]);
          expect(mine[0]!.at - thawedAt).toBeLessThan(LEASE_MS / 3 + SLACK_MS);
        }
      });
    });
  });

  it("no invariant is broken, and both drain", async () => {
    expect(await violations(bench, { log, ledger, acknowledged: made })).toEqual([]);
    expect(await frozen.end()).toBe(0);
    expect(await other.end()).toBe(0);
  });
});
