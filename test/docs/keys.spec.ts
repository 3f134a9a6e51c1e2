import { readFileSync } from "node:fs";
import path from "node:path";
import { Bench } from "../support/harness.js";
import { examples } from "./keys.example.js";

// What docs/keys.md shows is a file that is compiled, and run.

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

it("the example is the file, and does what the page says", async () => {
  const [page, file] = ["../../docs/keys.md", "keys.example.ts"].map((name) =>
    readFileSync(path.join(import.meta.dirname, name), "utf8"),
  );
  expect([...page!.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text]) => text)).toEqual([file]);
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
