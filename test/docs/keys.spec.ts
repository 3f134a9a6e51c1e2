import { readFileSync } from "node:fs";
import path from "node:path";
import { Bench } from "../support/harness.js";
import { examples } from "./keys.example.js";

// What docs/keys.md shows is a file that is compiled, and run.

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
