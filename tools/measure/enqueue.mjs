import { ControlHints } from "../../libs/jobs/dist/queue/control-hints.js";
import { Hints } from "../../libs/jobs/dist/queue/hints.js";
import { JobQueue } from "../../libs/jobs/dist/queue/job-queue.js";
import { Events } from "../../libs/jobs/dist/observe/events.js";
import { Store } from "../../libs/jobs/dist/store/store.js";
import { enqueue } from "../../libs/jobs/dist/store/transitions/enqueue.js";
import { median, perSecond, rate, ratio } from "./ground.mjs";

const RUNS = 3;

/** Through the statement alone, and through the public door with coalescing. */
export async function measureEnqueue(ground) {
  const store = new Store(ground.database);
  const nobody = { wake: () => false, changed: () => {}, control: () => false };
  const hints = new Hints(store.session, store.schema, true, nobody);
  const control = new ControlHints(store.session, store.schema, true, nobody);
  const queue = new JobQueue(store, hints, new Events(), 1_048_576, control);
  const options = { queue: "measured" };
  const payload = { to: "ada@example.com", subject: "hello", text: "x".repeat(40), n: 1 };

  const loops = {
    "statement, one job each": [
      2_000,
      async (n) => {
        for (const job of await ground.jobs(n)) await enqueue(ground.front, ground.queueId, [job]);
      },
    ],
    "statement, 1,000 each": [
      60_000,
      async (n) => {
        for (let i = 0; i < n; i += 1_000)
          await enqueue(ground.front, ground.queueId, await ground.jobs(1_000));
      },
    ],
    "enqueue(), 1 caller": [2_000, (n) => callers(queue, 1, n, payload, options)],
    "enqueue(), 16 callers": [20_000, (n) => callers(queue, 16, n, payload, options)],
    "enqueue(), 64 callers": [40_000, (n) => callers(queue, 64, n, payload, options)],
    "enqueue(), 512 callers": [60_000, (n) => callers(queue, 512, n, payload, options)],
    "enqueueMany(), 1,000 each": [
      60_000,
      async (n) => {
        for (let i = 0; i < n; i += 1_000)
          await queue.enqueueMany(
            "noop",
            Array.from({ length: 1_000 }, () => payload),
            options,
          );
      },
    ],
  };
  const rates = new Map();
  const wal = new Map();
  await callers(queue, 16, 2_000, payload, options);
  for (let run = 0; run < RUNS; run++) {
    for (const [name, [count, work]] of Object.entries(loops)) {
      const bytes = await ground.wal(async () =>
        rates.set(name, [...(rates.get(name) ?? []), await rate(count, () => work(count))]),
      );
      wal.set(name, [...(wal.get(name) ?? []), bytes / count]);
    }
    await ground.clear();
  }
  await queue.close();
  const base = median(rates.get("statement, one job each"));
  return {
    title: "Enqueue",
    why: "Concurrent calls go together into the next statement; each call resolves after its commit.",
    header: ["what", "jobs", "against one by one", "WAL bytes a job"],
    rows: Object.keys(loops).map((name) => [
      name,
      perSecond(median(rates.get(name))),
      `${ratio(median(rates.get(name)), base)} ×`,
      Math.round(median(wal.get(name))),
    ]),
  };
}

async function callers(queue, count, total, payload, options) {
  let left = total;
  const caller = async () => {
    while (left-- > 0) await queue.enqueue("noop", payload, options);
  };
  await Promise.all(Array.from({ length: count }, caller));
}
