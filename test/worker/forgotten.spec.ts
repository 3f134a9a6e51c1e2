import { JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

// Who was silent for days is forgotten by the others' upkeep; he may only have stood still.

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => await bench.close());

it("a process whose row was forgotten registers again", async () => {
  const app = await bench.worker([handler("work", () => undefined)]);
  const jobs = app.get(JobQueue);
  await reached(bench, (await jobs.enqueue("work", {})).id, "succeeded");
  await bench.sql("delete from jobs.worker");
  const known = async () => {
    await jobs.enqueue("work", {});
    return (await bench.sql("select from jobs.worker")).length === 1;
  };
  await until(known, { every: 300, timeout: 25_000, what: "it is known again" });
});
