import { jest } from "@jest/globals";
import { ConsoleLogger, Logger } from "@nestjs/common";
import { JobQueue, defineJob } from "nestjs-pg-jobs";
import { handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

const Idle = defineJob("idle");
const Gate = defineJob("gate");
const GONE = 'the schema is gone, or of another release: run "pg-jobs migrate"';
/** From the new beginning until it is there again. */
const MISSING = 'the schema is not ready: run "pg-jobs migrate"';

describe("a schema that is dropped under a worker", () => {
  let bench: Bench;
  let lines: unknown[];
  let open: () => void;
  let jobs: JobQueue;
  let ran: number;

  beforeEach(async () => {
    bench = await Bench.open();
    const gate = new Promise<void>((resolve) => (open = resolve));
    ran = 0;
    // What is off is not even made into a line; the apps of the bench have errors only.
    jest.spyOn(ConsoleLogger.prototype, "isLevelEnabled").mockReturnValue(true);
    const app = await bench.worker([handler(Idle, () => void ran++), handler(Gate, () => gate)], {
      lease: "1s",
    });
    jobs = app.get(JobQueue);
    const { id } = await jobs.enqueue(Idle);
    await until(async () => (await bench.state(id)) === "succeeded", { what: "it works" });
    lines = [];
    for (const level of ["log", "warn", "error"] as const)
      jest.spyOn(Logger.prototype, level).mockImplementation((message: unknown) => {
        lines.push(message);
      });
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    open();
    await bench.close();
  });

  const dropped = async () => {
    await bench.drop();
    await until(() => lines.length > 0, { what: "it says something" });
  };
  const worksAgain = async () => {
    await bench.migrate();
    await jobs.enqueue(Idle);
    await until(() => ran === 2, { what: "it works again" });
    expect(lines.filter((line) => line !== GONE && line !== MISSING)).toEqual([]);
  };

  it("is what its first line is about when it looks for work, and it goes on with a new one", async () => {
    await dropped();
    expect([GONE, MISSING]).toContain(lines[0]);
    await worksAgain();
  });

  it("is what its first line is about when one of its duties is under way", async () => {
    const client = await bench.client();
    await client.query("begin");
    await client.query(`lock table ${bench.schema}.dedup in access exclusive mode`);
    await bench.sql("update jobs.chore set due_at = now() where name = 'windows'");
    const waiting = `select from pg_locks where not granted and relation = '${bench.schema}.dedup'::regclass`;
    await until(async () => (await client.query(waiting)).rowCount === 1, { what: "it waits" });
    await client.query(`drop schema ${bench.schema} cascade`);
    await client.query("commit");
    await until(() => lines.length > 0, { timeout: 3_000, what: "it says something" });
    expect([GONE, MISSING]).toContain(lines[0]);
    await worksAgain();
  });

  it("is what its first line is about when it holds a job: for the renewal of its lease, and for its settle", async () => {
    const { id } = await jobs.enqueue(Gate);
    await until(async () => (await bench.state(id)) === "running", { what: "it runs" });
    await dropped();
    expect([GONE, MISSING]).toContain(lines[0]);
    open();
    await bench.migrate();
    const lost = "Job is in other hands: what this attempt did is not written";
    await until(() => lines.includes(lost), { what: "it has heard that there is no such job" });
    expect(lines.filter((line) => line !== GONE && line !== MISSING)).toEqual([lost]);
  });
});
