import { awake } from "../support/awake.js";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

// Cancels of what runs in three processes, one of which is killed meanwhile: with hints, and by reading alone.

const AT_GATES = 12;
const SHORT = 150;

describe.each([
  ["with hints", true],
  ["without hints", false],
] as const)("cancels %s", (_, notify) => {
  let bench: Bench;
  let log: TransitionLog;
  let ledger: Ledger;
  let workers: WorkerProcess[] = [];

  beforeAll(async () => {
    bench = await Bench.open();
    log = await TransitionLog.install(bench);
    ledger = new Ledger();
  });
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.end()));
    await log.remove();
    await bench.close();
    ledger.remove();
  });

  const ended = async (id: string, state: string) =>
    await until(async () => (await bench.state(id)) === state, {
      what: `job ${id} is ${state}`,
      timeout: 40_000,
    });

  it("reach a job on any of three within a second, while one of them is killed", async () => {
    workers = await WorkerProcess.startAll(3, {
      url: bench.url,
      schema: bench.schema,
      ledger,
      notify,
      queues: { default: { concurrency: 4, prefetch: 0 }, short: { concurrency: 2 } },
    });
    await Promise.all(workers.map((worker) => worker.seasoned()));
    const jobs = await bench.producer({ notify });
    const many = async (count: number, payload: object, queue: string) =>
      (
        await jobs.enqueueMany(
          "task",
          Array.from({ length: count }, () => payload),
          { queue },
        )
      ).map(({ id }) => id);
    const gates = await many(AT_GATES, { do: "gate" }, "default");
    const holder = (id: string) => workers.find((one) => one.gated.some((job) => job.id === id));
    await until(() => gates.every(holder), { what: "all are at their gates" });
    expect(workers.map(({ gated }) => gated.length)).toEqual([4, 4, 4]);

    const short = await many(SHORT, { do: "sleep", ms: 20 }, "short");
    const answers = new Map<string, string>();
    const startedWhenCancelled = new Map<string, number>();
    const storm = Promise.all(
      short.map(async (id, n) => {
        // Some of them wait, some run, some are over by then.
        await until(() => new Set(ledger.starts().map((one) => one.id)).size >= n / 2, {
          what: "its time has come",
          timeout: 60_000,
        });
        if (n % 3 === 0) return;
        const answer = await jobs.cancel(id);
        answers.set(id, answer);
        if (answer === "cancelled") startedWhenCancelled.set(id, ledger.starts(id).length);
      }),
    );

    const [victim] = workers as [WorkerProcess];
    const [last, ...doomed] = victim.gated.map(({ id }) => id);
    const living = gates.filter((id) => holder(id) !== victim);
    const aborts = async (id: string, by: WorkerProcess) => {
      expect(await jobs.cancel(id)).toBe("requested");
      const heard = () => by.aborted.find((one) => one.id === id);
      expect(await awake(until(heard, { every: 5, what: `${id} aborts` }))).toBeLessThan(1_000);
      expect(heard()!.reason).toBe("JobCancelledError");
    };
    const ends: Record<string, string> = {};
    const killed = async () => {
      const underWay = jobs.cancel(doomed[0]!);
      victim.kill();
      expect(await underWay).toBe("requested");
      expect(await jobs.cancel(doomed[1]!)).toBe("requested");
      expect(await victim.exit()).toBe("SIGKILL");
      expect(["requested", "cancelled"]).toContain(await jobs.cancel(doomed[2]!));
      for (const id of doomed) ends[id] = "cancelled";
    };
    for (const [n, id] of living.entries()) {
      const by = holder(id)!;
      // Told before: the body must not end before it is aborted.
      by.tell(id, n % 2 === 0 ? "throw" : "return", { afterAbort: true });
      ends[id] = n % 2 === 0 ? "cancelled" : "succeeded";
      if (n === 3) await killed();
      await aborts(id, by);
    }
    for (const [id, state] of Object.entries(ends)) await ended(id, state);

    // The one that nobody wanted to end runs again, and is reached there.
    const heir = await until(
      () => workers.find((one) => one.gated.some((job) => job.id === last && job.attempt === 2)),
      { what: "it is rescued", timeout: 40_000 },
    );
    heir.tell(last!, "throw", { afterAbort: true });
    await aborts(last!, heir);
    await ended(last!, "cancelled");

    await storm;
    // At once: with an expired lease a job goes from the one to the other.
    const over = async () => {
      const states = await bench.states();
      return !("queued" in states) && !("running" in states);
    };
    await until(over, { timeout: 60_000, what: "all have ended" });
    for (const [id, answer] of answers) {
      const state = await bench.state(id);
      const may = { cancelled: ["cancelled"], "not-cancellable": ["succeeded"] }[answer];
      expect({ id, answer, state }).toEqual({
        id,
        answer,
        state: expect.stringMatching(may ? may[0]! : /cancelled|succeeded/),
      });
    }
    // What was withdrawn has not started since.
    for (const [id, starts] of startedWhenCancelled) expect(ledger.starts(id)).toHaveLength(starts);
    for (const id of doomed) expect(ledger.starts(id)).toHaveLength(1);

    // Of the killed process, and of what was over before it was read.
    await bench.sql("update jobs.chore set due_at = now() where name = 'control'");
    await until(async () => (await bench.sql("select 1 from jobs.control")).length === 0, {
      what: "nothing is left to be read",
    });
    const acknowledged = [...gates, ...short];
    expect(await violations(bench, { log, ledger, acknowledged })).toEqual([]);
  }, 180_000);
});
