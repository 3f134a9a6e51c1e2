import type { JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";

// Lists whose payloads are each within the limit, and together more than one statement can carry: one jsonb value
// of PostgreSQL holds 256 MB.

let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer({ notify: false });
  await jobs.enqueue("work", {});
  await bench.sql("alter table jobs.job add constraint poison check (payload <> '\"poison\"')");
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.job, jobs.dedup")));

const MEGABYTE = "x".repeat(1_000_000);
const megabytes = (count: number) => Array.from({ length: count }, () => MEGABYTE);
const numbers = (made: readonly { id: string }[]) => made.map(({ id }) => Number(id.split("-")[1]));

it("a list of 300 MB is taken, in the order of its items", async () => {
  const made = numbers(await jobs.enqueueMany("work", megabytes(300)));
  expect(made).toEqual(made.toSorted((a, b) => a - b));
  expect(new Set(made).size).toBe(300);
  expect(await bench.states()).toEqual({ queued: 300 });
});

it("the same on somebody's transaction, all or none", async () => {
  const client = await bench.client();
  for (const [end, states] of [
    ["rollback", {}],
    ["commit", { queued: 300 }],
  ] as const) {
    await client.query("begin");
    const made = numbers(await jobs.in(client).enqueueMany("work", megabytes(300)));
    expect(made).toEqual(made.toSorted((a, b) => a - b));
    await client.query(end);
    expect(await bench.states()).toEqual(states);
  }
});

it.each([
  ["without keys", () => ({})],
  ["with keys", (n: number) => ({ key: `k${n}` })],
  ["with windows", (n: number) => ({ key: `k${n}`, window: "1h" })],
])("a list of several statements is all or nothing, %s", async (_, options) => {
  const items = megabytes(40).map((payload, n) => ({ payload, ...options(n) }));
  const poisoned = [...items.slice(0, -1), { ...items.at(-1)!, payload: "poison" }];
  await expect(jobs.enqueueMany("work", poisoned)).rejects.toMatchObject({ code: "23514" });
  expect(await bench.states()).toEqual({});
  const made = await jobs.enqueueMany("work", items);
  expect(await bench.states()).toEqual({ queued: 40 });
  const again = await jobs.enqueueMany("work", [...items, { payload: 1 }]);
  const keyed = "key" in options(0);
  expect(again.map(({ deduplicated }) => deduplicated)).toEqual([...items.map(() => keyed), false]);
  if (keyed) expect(again.slice(0, 40).map(({ id }) => id)).toEqual(made.map(({ id }) => id));
});
