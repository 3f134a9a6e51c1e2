import { JobQueue, defineJob } from "nestjs-pg-jobs";
import { Gate, handler, row } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

const Work = defineJob<{ waits?: boolean }>("work");
/** Longer than this a process has to have worked until it takes over. */
const SEASONED_MS = 10_500;
const RESCANS_AFTER_MS = 700;

it("a claim that was under way through an outage comes too late to take over", async () => {
  const bench = await Bench.open();
  const gate = new Gate();
  const starts: string[] = [];
  const body = (who: string) =>
    handler(Work, async ({ waits }, { attempt }) => {
      starts.push(`${who} ${waits ? "waits" : "runs"} ${attempt}`);
      if (waits) await gate.opened;
    });
  try {
    const [holder, claimer] = [await bench.line(), await bench.line()];
    const jobs = (await bench.app([bench.root()])).get(JobQueue);
    const lease = "3s";
    const one = { queues: { default: { concurrency: 1, prefetch: 0 } }, lease };
    await bench.worker([body("holder")], one, { connection: { url: holder.url } });
    const { id } = await jobs.enqueue(Work, { waits: true });
    await until(() => starts.length === 1, { what: "it runs" });

    // It looks once, at its start: then it claims when it is hinted at.
    const rare = { lease, poll: "60s" };
    await bench.worker([body("claimer")], rare, { connection: { url: claimer.url } });
    const from = performance.now();
    await jobs.enqueue(Work, {});
    await until(() => starts.length === 2, { what: "the other one works" });
    await until(() => performance.now() - from > SEASONED_MS, {
      timeout: SEASONED_MS + 20_000,
      what: "it may take over",
    });
    // A sign of life: with this one it has the right.
    await jobs.enqueue(Work, {});
    await until(() => starts.length === 3, { what: "it still works" });
    // The next claim scans from the beginning: it would meet what the holder runs.
    const last = performance.now();
    await until(() => performance.now() - last > RESCANS_AFTER_MS);

    claimer.proxy.setMode("deaf");
    holder.proxy.setMode("blackhole");
    await jobs.enqueue(Work, {});
    await until(() => claimer.proxy.holds("claim"), { what: "its claim is on the way" });
    const expired = async () => {
      const [job] = await bench.sql(
        "select 1 from jobs.job where lease_until < now() - interval '200 ms'",
      );
      return job !== undefined;
    };
    await until(expired, { what: "the lease of what the holder runs is over" });
    claimer.proxy.setMode("pass");
    await until(() => starts.length === 4, { what: "the claim has arrived" });
    holder.proxy.setMode("pass");
    gate.open();
    await until(async () => (await bench.state(id)) === "succeeded", { what: "it succeeds" });
    expect(starts.filter((start) => start.includes("waits"))).toEqual(["holder waits 1"]);
    expect(await row(bench, id)).toMatchObject({ attempt: 1, failures: 0 });
  } finally {
    gate.open();
    await bench.close();
  }
}, 120_000);
