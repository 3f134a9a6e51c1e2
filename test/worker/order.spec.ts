import { JobQueue, defineJob } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { Gate, handler, payloads, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

const Job = defineJob<string>("job");
const First = defineJob<number>("first");
const Second = defineJob<number>("second");
const Hold = defineJob("hold", { queue: "held", priority: 100 });

describe("order", () => {
  let bench: Bench;
  let jobs: JobQueue;
  beforeEach(async () => {
    bench = await Bench.open();
    jobs = await bench.producer();
  });
  afterEach(async () => await bench.close());

  const single = { queues: { default: { concurrency: 1, prefetch: 0 } } };

  it("higher priority first, then by time, whatever the order of the calls", async () => {
    const ran: string[] = [];
    for (const [name, priority] of [
      ["low 1", -100],
      ["none 1", 0],
      ["high 1", 100],
      ["low 2", -100],
      ["high 2", 100],
      ["none 2", 0],
    ] as const)
      await jobs.enqueue(Job, name, { priority });
    await bench.worker([handler(Job, (name) => void ran.push(name))], single);
    await until(() => ran.length === 6, { what: "all to run" });
    expect(ran).toEqual(["high 1", "high 2", "none 1", "none 2", "low 1", "low 2"]);
  });

  it("one kind runs in the order of its calls, also of many in one call, also over id blocks", async () => {
    const ran: string[] = [];
    const sent: string[] = [];
    for (let call = 0; call < 12; call++) {
      const batch = Array.from({ length: call % 3 === 0 ? 200 : 1 }, (_, i) => `${call}.${i}`);
      sent.push(...batch);
      await jobs.enqueueMany(Job, batch);
    }
    await bench.worker([handler(Job, (name) => void ran.push(name))], {
      queues: { default: { concurrency: 1, prefetch: 20 } },
    });
    await until(() => ran.length === sent.length, { what: "all to run" });
    expect(ran).toEqual(sent);
  });

  it("a job of higher priority overtakes what waits", async () => {
    const ran: string[] = [];
    const gate = new Gate();
    const app = await bench.worker(
      [
        handler(Job, async (name) => {
          ran.push(name);
          if (name === "running") await gate.opened;
        }),
      ],
      single,
    );
    const local = app.get(JobQueue);
    // The worker knows both priorities from here on.
    const { id } = await local.enqueue(Job, "before", { priority: 1 });
    await reached(bench, id, "succeeded");
    await local.enqueue(Job, "running");
    await until(() => ran.includes("running"), { what: "it to run" });
    await local.enqueue(Job, "waiting");
    await local.enqueue(Job, "urgent", { priority: 1 });
    gate.open();
    await until(() => ran.length === 4, { what: "all to run" });
    expect(ran).toEqual(["before", "running", "urgent", "waiting"]);
  });

  it.each([{ prefetch: 0 }, { prefetch: 3 }])(
    "equal priorities take turns ($prefetch prefetched)",
    async ({ prefetch }) => {
      const ran: string[] = [];
      await jobs.enqueueMany(First, [...Array(40).keys()]);
      await jobs.enqueueMany(Second, [...Array(40).keys()]);
      await bench.worker(
        [
          handler(First, () => void ran.push("first")),
          handler(Second, () => void ran.push("second")),
        ],
        { queues: { default: { concurrency: 1, prefetch } } },
      );
      await until(() => ran.length === 80, { what: "all to run" });
      // Neither waits for the other's backlog. Claims take turns, not jobs: they may be of unequal size.
      const share = ran.slice(0, 40).filter((kind) => kind === "second").length;
      expect(share).toBeGreaterThanOrEqual(5);
      expect(share).toBeLessThanOrEqual(35);
    },
  );

  it("queues do not wait for one another", async () => {
    const gate = new Gate();
    let ran = 0;
    await jobs.enqueueMany(Hold, payloads(5));
    await jobs.enqueueMany(Job, ["a", "b", "c"]);
    await bench.worker([handler(Hold, () => gate.opened), handler(Job, () => void ran++)], {
      queues: { held: { concurrency: 1 }, default: { concurrency: 1 } },
    });
    await until(() => ran === 3, { what: "the other queue to run" });
    gate.open();
  });
});
