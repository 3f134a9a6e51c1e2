import { JobInspector, JobQueue, JobsError, OptionsError } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";

describe("what a caller may get wrong in a look", () => {
  let bench: Bench;
  let inspector: JobInspector;
  let jobs: JobQueue;
  beforeAll(async () => {
    bench = await Bench.open();
    const app = await bench.app([bench.root()]);
    [inspector, jobs] = [app.get(JobInspector), app.get(JobQueue)];
    for (const queue of ["mail", "slow"]) await jobs.enqueue("work", {}, { queue });
  });
  afterAll(async () => await bench.close());

  const problems = async (work: Promise<unknown>): Promise<unknown> =>
    await work.then(
      () => "it was answered",
      (error: unknown) => (error instanceof OptionsError ? error.problems : error),
    );

  it.each([
    ["x", ['queues: expected a list of queue names, found "x"']],
    [null, ["queues: expected a list of queue names, found null"]],
    [
      ["mail", 7, ""],
      [
        "queues[1]: expected the name of a queue, found 7",
        'queues[2]: expected the name of a queue, found ""',
      ],
    ],
  ])("health(%j) is refused", async (queues, expected) => {
    expect(await problems(inspector.health(queues as never))).toEqual(expected);
  });

  it("health of a queue that is not there: says which may be meant", async () => {
    expect(await problems(inspector.health(["mail", "mial", "nope"]))).toEqual([
      'queues[1]: expected a queue that has had a job or a worker, found "mial"; did you mean "mail"?',
      'queues[2]: expected a queue that has had a job or a worker, found "nope"; known are "mail", "slow"',
    ]);
  });

  it("health of queues that are there, named twice or not at all", async () => {
    expect((await inspector.health(["slow", "slow"])).map(({ queue }) => queue)).toEqual(["slow"]);
    expect(await inspector.health([])).toEqual([]);
    expect((await inspector.health()).map(({ queue }) => queue)).toEqual(["mail", "slow"]);
  });

  it.each([undefined, null, 7, {}])("the id %p is told", async (id) => {
    for (const look of [inspector.get(id as never), inspector.attempts(id as never)])
      await expect(look).rejects.toBeInstanceOf(JobsError);
  });

  it.each([
    [null, "options: expected an object, found null"],
    [{ paylod: 1 }, "paylod: unknown option, did you mean payload?"],
  ])("the options of requeue: %j", async (options, expected) => {
    expect(await problems(jobs.requeue("1-1024", options as never))).toEqual([expected]);
  });
});
