import { jest } from "@jest/globals";
import { type JobContext, JobQueue, defineJob } from "nestjs-pg-jobs";
import { setTimeout as sleep } from "node:timers/promises";
import { Session } from "../../libs/jobs/src/pg/session.js";
import { Bench } from "../support/harness.js";
import { Gate, handler, payloads } from "../support/handlers.js";
import { until } from "../support/until.js";

// A job whose process died twice runs alone. Whatever else goes on, the worker must come out of it again.

const work = defineJob("work");
const suspect = defineJob("suspect");

describe("quarantine", () => {
  let bench: Bench;
  beforeEach(async () => void (bench = await Bench.open()));
  afterEach(async () => {
    jest.restoreAllMocks();
    await bench.close();
  });

  /** A job that has killed its process twice, due now. */
  async function addSuspect(jobs: JobQueue): Promise<string> {
    const { id } = await jobs.enqueue(suspect, {}, { delay: "1h" });
    await bench.sql(
      "update jobs.job set lane = lane + 20000, crashes = 2, run_at = now() where id = $1",
      [id.split("-")[1]],
    );
    return id;
  }

  /** The answer of each claim takes so long: there is always one under way. */
  function slowClaims(ms: number): void {
    const exclusive = Reflect.get(Session.prototype, "exclusive") as Session["exclusive"];
    jest.spyOn(Session.prototype, "exclusive").mockImplementation(function (this: Session, fn) {
      return exclusive.call(this, (run) =>
        fn(async (statement, values) => {
          const rows = await run(statement, values);
          if (statement.name === "claim") await sleep(ms);
          return rows;
        }),
      ) as never;
    });
  }

  it("gives back what a claim brings after the worker began to make itself empty", async () => {
    slowClaims(60);
    let ran = 0;
    const app = await bench.worker(
      [
        handler(work, async () => {
          ran += 1;
          await sleep(50);
        }),
        handler(suspect, () => "alive"),
      ],
      { poll: "100ms", queues: { default: { concurrency: 5 } } },
    );
    const jobs = app.get(JobQueue);
    await jobs.enqueueMany(work, payloads(5_000));
    await until(() => ran > 0);
    const id = await addSuspect(jobs);
    await until(async () => (await bench.state(id)) === "succeeded", {
      timeout: 40_000,
      what: "the suspect to run",
    });
    const before = ran;
    await until(() => ran > before, { what: "the others to go on" });
  }, 60_000);

  it("is not waited for by a slot that a body without end has taken", async () => {
    const gate = new Gate();
    const app = await bench.worker(
      [
        handler(work, () => "done"),
        handler(suspect, async () => await gate.opened, {
          concurrency: 1,
          timeout: "100ms",
          attempts: 1,
        }),
      ],
      { poll: "100ms", queues: { default: { concurrency: 5 } } },
    );
    const jobs = app.get(JobQueue);
    const { id } = await jobs.enqueue(suspect, {});
    // Dead by its timeout, but its body goes on.
    await until(async () => (await bench.state(id)) === "dead", { timeout: 30_000 });
    const other = await addSuspect(jobs);
    await sleep(500);
    await jobs.enqueueMany(work, payloads(3));
    await until(async () => (await bench.states()).succeeded === 3, { what: "the others to run" });
    gate.open();
    await until(async () => (await bench.state(other)) === "succeeded", {
      what: "the suspect to run",
    });
  }, 60_000);

  it("a suspect is seen behind a handler that is full all the time", async () => {
    const app = await bench.worker(
      [handler(suspect, async () => await sleep(20), { concurrency: 1 })],
      { poll: "100ms" },
    );
    const jobs = app.get(JobQueue);
    await jobs.enqueueMany(suspect, payloads(3_000));
    const id = await addSuspect(jobs);
    await until(async () => (await bench.state(id)) === "succeeded", {
      timeout: 40_000,
      what: "the suspect to run",
    });
    expect((await bench.states()).queued).toBeGreaterThan(0);
  }, 60_000);

  it("one process makes itself empty, the others go on", async () => {
    const gates = Array.from({ length: 6 }, () => new Gate());
    const long = defineJob<{ gate: number }>("long");
    const handlers = [
      handler(long, async ({ gate }) => await gates[gate]!.opened),
      handler(work, () => "done"),
      handler(suspect, () => "alive"),
    ];
    const queues = { default: { concurrency: 2, prefetch: 0 } };
    const apps = [];
    for (let n = 0; n < 3; n++) apps.push(await bench.worker(handlers, { poll: "100ms", queues }));
    const jobs = apps[0]!.get(JobQueue);
    const made = await jobs.enqueueMany(
      long,
      [0, 1, 2, 3, 4, 5].map((gate) => ({ gate })),
    );
    await until(async () => (await bench.states()).running === 6, { what: "all are full" });
    const id = await addSuspect(jobs);
    const secluded = async () =>
      (await bench.sql("select from jobs.chore where name = 'seclusion' and due_at > now()"))
        .length > 0;
    await until(secluded, { timeout: 30_000, what: "one of them begins to make itself empty" });
    // Until the patience of the others is over too.
    const since = performance.now();
    await until(() => performance.now() - since > 10_500, { timeout: 20_000 });

    // One job of each ends: each has room for another, and one of them takes none.
    const held = await bench.sql<{ worker: number; number: string }>(
      "select worker, id as number from jobs.job where lease_until > now()",
    );
    const one = new Map(held.map(({ worker, number }) => [worker, number]));
    expect(one.size).toBe(3);
    for (const number of one.values())
      gates[made.findIndex((job) => job.id.endsWith(`-${number}`))]!.open();
    const others = await jobs.enqueueMany(work, payloads(4));
    for (const other of others)
      await until(async () => (await bench.state(other.id)) === "succeeded", {
        what: "the others go on",
      });
    expect(await bench.state(id)).toBe("queued");

    for (const gate of gates) gate.open();
    await until(async () => (await bench.state(id)) === "succeeded", {
      timeout: 40_000,
      what: "the suspect to run",
    });
  }, 120_000);

  it("a worker that drains begins with no further suspect", async () => {
    const other = defineJob("other-suspect", { queue: "other" });
    const gate = new Gate();
    const begun: string[] = [];
    const body = async (_: unknown, { id }: JobContext) => {
      begun.push(id);
      await gate.opened;
    };
    const app = await bench.worker([handler(suspect, body), handler(other, body)], {
      poll: "100ms",
    });
    const jobs = app.get(JobQueue);
    const [one, two] = await Promise.all([
      jobs.enqueue(suspect, {}, { delay: "1h" }),
      jobs.enqueue(other, {}, { delay: "1h" }),
    ]);
    // At once, so that the same look sees both.
    await bench.sql("update jobs.job set lane = lane + 20000, crashes = 2, run_at = now()");
    await until(() => begun.length > 0, { what: "the first to run" });
    const closed = app.close();
    gate.open();
    await closed;
    const rest = [one.id, two.id].find((id) => id !== begun[0])!;
    expect(begun).toHaveLength(1);
    expect(
      await bench.sql("select attempt, crashes, lease_until from jobs.job where id = $1", [
        rest.split("-")[1],
      ]),
    ).toEqual([{ attempt: 0, crashes: 2, lease_until: null }]);
  });
});
