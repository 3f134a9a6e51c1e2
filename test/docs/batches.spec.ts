import { readFileSync } from "node:fs";
import path from "node:path";
import type { HandlerOptions } from "nestjs-pg-jobs";
import { handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";

const ROOT = path.resolve(import.meta.dirname, "../..");

/** The options of batches that a page shows, by where they stand. */
function shown(page: string): [string, HandlerOptions["batch"]][] {
  const text = readFileSync(path.join(ROOT, page), "utf8");
  return [...text.matchAll(/batch: (\{ size: \d[^}]*\})/g)].map(([, options]) => [
    `${page}: ${options}`,
    JSON.parse(options!.replaceAll(/(\w+):/g, '"$1":')) as HandlerOptions["batch"],
  ]);
}

describe("the batches that the documentation shows", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());
  const all = ["README.md", "docs/batches.md"].flatMap(shown);

  it("are there", () => expect(all.length).toBeGreaterThanOrEqual(2));

  it.each(all)(
    "boot as printed, with the options of a queue nothing was said about: %s",
    async (_, batch) => {
      await expect(bench.worker([handler("shown", () => {}, { batch })])).resolves.toBeDefined();
    },
  );
});
