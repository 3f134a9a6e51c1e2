import { JobInspector, JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached, payloads } from "../support/handlers.js";
import { until } from "../support/until.js";

describe("kinds that no worker knows", () => {
  let bench: Bench;
  beforeEach(async () => void (bench = await Bench.open()));
  afterEach(async () => await bench.close());

  it("wait untouched, are listed, stop nobody, and run once somebody knows them", async () => {
    const app = await bench.worker([handler("known", () => "ran")], {
      queues: { default: { concurrency: 1, prefetch: 0 } },
    });
    const jobs = app.get(JobQueue);
    const inspector = app.get(JobInspector);
    const strangers = await jobs.enqueueMany("stranger", payloads(50), { priority: 100 });
    for (let i = 0; i < 20; i++) {
      const { id } = await jobs.enqueue("known");
      await reached(bench, id, "succeeded");
    }
    expect(
      await bench.sql(
        "select distinct state, attempt from jobs.job_status where kind = 'stranger'",
      ),
    ).toEqual([{ state: "queued", attempt: 0 }]);
    expect(await inspector.unknownKinds()).toEqual([{ queue: "default", kind: "stranger" }]);

    const ran = new Set<string>();
    await bench.worker([handler("stranger", (_payload, { id }) => ran.add(id).size)]);
    await until(() => ran.size === 50, { what: "all strangers to run" });
    for (const { id } of strangers) await reached(bench, id, "succeeded");
    expect(await inspector.unknownKinds()).toEqual([]);
  });

  it("a kind is known in the queues of its worker only", async () => {
    const app = await bench.worker([handler("known", () => "ran")]);
    await app.get(JobQueue).enqueue("known", {}, { queue: "nobody" });
    expect(await app.get(JobInspector).unknownKinds()).toEqual([
      { queue: "nobody", kind: "known" },
    ]);
  });

  it("a worker that stopped knows nothing any more", async () => {
    const jobs = await bench.producer();
    const app = await bench.worker([handler("left", () => "ran")]);
    const { id } = await jobs.enqueue("left");
    await reached(bench, id, "succeeded");
    await app.close();
    await jobs.enqueue("left");
    const inspector = (await bench.app([bench.root()])).get(JobInspector);
    // It says so when it goes, and does not wait long for the answer.
    const unknown = await until(async () => {
      const kinds = await inspector.unknownKinds();
      return kinds.length > 0 && kinds;
    });
    expect(unknown).toEqual([{ queue: "default", kind: "left" }]);
  });
});
