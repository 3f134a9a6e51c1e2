import { Injectable } from "@nestjs/common";
import { JobHandler, JobQueue, defineJob } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

const Greet = defineJob<{ name: string }>("greet");

@Injectable()
class Greeter {
  readonly greeted: string[] = [];

  @JobHandler(Greet)
  greet({ name }: { name: string }): string {
    this.greeted.push(name);
    return `hello ${name}`;
  }
}

describe("a job, end to end", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  it("is enqueued, run once, and keeps its result", async () => {
    const app = await bench.worker([Greeter]);
    const jobs = app.get(JobQueue);
    const { id, deduplicated } = await jobs.enqueue(Greet, { name: "Ada" });
    await until(async () => (await bench.state(id)) === "succeeded", {
      what: "the job to succeed",
    });
    expect(deduplicated).toBe(false);
    expect(app.get(Greeter, { strict: false }).greeted).toEqual(["Ada"]);
    expect(await jobs.get(id)).toMatchObject({
      id,
      kind: "greet",
      queue: "default",
      attempt: 1,
      failures: 0,
      payload: { name: "Ada" },
      result: "hello Ada",
    });
  });
});
