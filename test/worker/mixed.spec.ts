import { JobInspector, bury, defineJob, fixed, skip, snooze } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler } from "../support/handlers.js";
import { until } from "../support/until.js";

const COUNT = 2_000;
/** By the number of the job: what each of its runs does, and how it ends. */
const PLANS = [
  { runs: ["succeed"], state: "succeeded", failures: 0 },
  { runs: ["succeed"], state: "succeeded", failures: 0 },
  { runs: ["fail", "succeed"], state: "succeeded", failures: 1 },
  { runs: ["fail", "fail", "fail"], state: "dead", failures: 3 },
  { runs: ["snooze", "fail", "snooze", "skip"], state: "skipped", failures: 1 },
  { runs: ["bury"], state: "dead", failures: 0 },
  { runs: ["skip"], state: "skipped", failures: 0 },
] as const;

const Job = defineJob<number>("job", { attempts: 3, backoff: fixed("1ms") });

it("two workers, 2,000 jobs of every fate: each is settled once, as its runs say", async () => {
  const bench = await Bench.open();
  try {
    /** What the handlers did, as they saw it. */
    const ledger = new Map<number, number[]>();
    const run = (n: number, { attempt }: { attempt: number }) => {
      ledger.set(n, [...(ledger.get(n) ?? []), attempt]);
      switch (PLANS[n % PLANS.length]!.runs[attempt - 1]) {
        case "succeed":
          return { n };
        case "skip":
          return skip("planned");
        case "snooze":
          throw snooze(1);
        case "bury":
          throw bury("planned");
        default:
          throw new Error(`run ${attempt} of ${n}`);
      }
    };
    const workers = [1, 2].map(async () => await bench.worker([handler(Job, run)]));
    const jobs = await bench.producer();
    const sent = await jobs.enqueueMany(Job, [...Array(COUNT).keys()]);
    await Promise.all(workers);
    await until(async () => (await bench.sql("select 1 from jobs.job limit 1")).length === 0, {
      what: "all to be settled",
      timeout: 60_000,
    });

    const rows = await bench.sql<{
      id: string;
      n: number;
      state: string;
      failures: number;
      attempt: number;
      errors: number;
    }>(
      `select s.id, (s.payload #>> '{}')::int as n, s.state, s.failures, s.attempt,
         (select count(*) from jobs.attempt_error e where e.job_id = s.number)::int as errors
       from jobs.job_status s`,
    );
    expect(rows.map(({ id }) => id).toSorted()).toEqual(sent.map(({ id }) => id).toSorted());
    for (const { n, errors, id: _id, ...found } of rows) {
      const { runs, state, failures } = PLANS[n % PLANS.length]!;
      const buried = runs.at(-1) === ("bury" as string) ? 1 : 0;
      expect({ n, ...found }).toEqual({ n, state, failures, attempt: runs.length });
      expect({ n, errors }).toEqual({ n, errors: failures + buried });
      expect(ledger.get(n)).toEqual(runs.map((_, index) => index + 1));
    }

    const states = await bench.states();
    const inspector = (await workers[0]!).get(JobInspector);
    expect(await inspector.counts()).toEqual([
      {
        queue: "default",
        kind: "job",
        unfinished: 0,
        cancelled: 0,
        succeeded: states.succeeded,
        skipped: states.skipped,
        dead: states.dead,
        archived: 0,
        pruned: 0,
        deleted: 0,
      },
    ]);
    // The counters say the same once they are rolled up.
    await until(
      async () => (await bench.sql("select 1 from jobs.stat_delta limit 1")).length === 0,
      {
        what: "the deltas to be rolled up",
      },
    );
    expect((await inspector.counts())[0]).toMatchObject({ ...states, unfinished: 0 });
  } finally {
    await bench.close();
  }
}, 120_000);
