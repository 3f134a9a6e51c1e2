import { readFileSync } from "node:fs";
import path from "node:path";
import { JobQueue } from "nestjs-pg-jobs";
import { handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { examples } from "./keys.example.js";
import { runAfterThis } from "./keys-follow.example.js";

// What docs/keys.md shows are files that are compiled, and run.

it("throttle and debounce do what the page says", async () => {
  const bench = await Bench.open();
  try {
    const jobs = await bench.producer();
    const throttled = { key: "ada", window: "1m" };
    const [first, second] = [
      await jobs.enqueue("mail", { n: 1 }, throttled),
      await jobs.enqueue("mail", { n: 2 }, throttled),
    ];
    expect(second).toEqual({ id: first.id, deduplicated: true });
    const debounced = { key: "ada", delay: "10s", onConflict: "replace" } as const;
    const { id } = await jobs.enqueue("index", { n: 1 }, debounced);
    await bench.age(id, "9 seconds");
    expect(await jobs.enqueue("index", { n: 2 }, debounced)).toEqual({
      id,
      deduplicated: true,
      replaced: true,
    });
    const job = await jobs.get(id);
    expect(job!.payload).toEqual({ n: 2 });
    expect(Date.parse(job!.runAt) - Date.now()).toBeGreaterThan(8_000);
  } finally {
    await bench.close();
  }
});

it("the examples are the files, and do what the page says", async () => {
  const names = ["../../docs/keys.md", "keys.example.ts", "keys-follow.example.ts"];
  const [page, ...files] = names.map((name) =>
    readFileSync(path.join(import.meta.dirname, name), "utf8"),
  );
  expect([...page!.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text]) => text)).toEqual(files);
  const bench = await Bench.open();
  try {
    const jobs = await bench.producer();
    expect(await examples(jobs, "i-1")).toEqual({ deduplicated: false, replaced: undefined });
    expect(await examples(jobs, "i-1")).toEqual({ deduplicated: true, replaced: true });
    expect(await bench.states()).toEqual({ queued: 3 });
  } finally {
    await bench.close();
  }
});

it("however many changes come while runs hang, one more job waits, and it sees the newest", async () => {
  const bench = await Bench.open();
  try {
    const client = await bench.client();
    await client.query(`create table ${bench.schema}.invoice (revision integer)`);
    await bench.sql("insert into jobs.invoice values (0)");
    const seen: number[] = [];
    let letGo = (): void => {};
    const over = new Promise<void>((resolve) => (letGo = resolve));
    const Index = handler("search.index", async () => {
      const [row] = await bench.sql<{ revision: number }>("select revision from jobs.invoice");
      await over;
      seen.push(row!.revision);
    });
    const queues = { default: { concurrency: 2, prefetch: 0 } };
    const jobs = (await bench.worker([Index], { queues })).get(JobQueue);
    const ids = new Set<string>();
    for (let change = 1; change <= 6; change++) {
      await client.query("begin");
      await client.query(`update ${bench.schema}.invoice set revision = $1`, [change]);
      ids.add((await runAfterThis(jobs.in(client), "i-1")).id);
      await client.query("commit");
      const running = Math.min(2, change);
      await until(async () => (await bench.states()).running === running, { what: "they run" });
    }
    expect(ids.size).toBe(3);
    letGo();
    await until(async () => (await bench.states()).succeeded === 3, { what: "all are done" });
    expect(seen.at(-1)).toBe(6);
  } finally {
    await bench.close();
  }
});
