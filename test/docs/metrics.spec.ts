import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";
import { Bench } from "../support/harness.js";
import type { Scraped } from "../support/scraped.js";
import { servedMetrics } from "../support/served-metrics.js";

// docs/metrics.md has every metric that is served, as it is, and no other; its code compiles.

const ROOT = path.resolve(import.meta.dirname, "../..");
const OUT = path.join(ROOT, "dist/docs-metrics");
const page = readFileSync(path.join(ROOT, "docs/metrics.md"), "utf8");
const cells = (line: string) =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
const quoted = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, word]) => word!);
const rows = page
  .split("\n")
  .filter((line) => line.startsWith("| `jobs_"))
  .map(cells)
  .filter(([, type]) => /^(counter|gauge|histogram)$/.test(type!))
  .map(([name, type, labels]) => [quoted(name!)[0]!, type!, quoted(labels!).sort()] as const);

let bench: Bench;
let served: Scraped;
beforeAll(async () => {
  bench = await Bench.open();
  served = await servedMetrics(bench);
});
afterAll(async () => await bench.close());

it("has every metric, with its type and its labels", () => {
  const labelsOf = (name: string, type: string) => {
    const [one] = served.of(type === "histogram" ? `${name}_count` : name);
    return Object.keys(one?.labels ?? {}).sort();
  };
  const found = [...served.types].map(([name, type]) => [name, type, labelsOf(name, type)]);
  const byName = (a: readonly unknown[], b: readonly unknown[]) =>
    String(a[0]).localeCompare(String(b[0]));
  expect(rows.toSorted(byName)).toEqual(found.sort(byName));
});

it("has every alert", () => {
  const alerts = readFileSync(path.join(ROOT, "deploy/prometheus/alerts.yml"), "utf8");
  const names = [...alerts.matchAll(/^ +- alert: (\w+)$/gm)].map(([, name]) => name);
  const told = page
    .split("\n")
    .filter((line) => /^\| `Jobs\w+` \|/.test(line))
    .map((line) => quoted(line)[0]);
  expect(told).toEqual([...new Set(names)]);
});

it("has code that compiles", () => {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  const blocks = [...page.matchAll(/^```ts\n\/\/ (\S+)\n(.*?)^```$/gms)];
  const files = blocks.map(([, name, text]) => {
    const file = path.join(OUT, name!);
    writeFileSync(file, text!);
    return file;
  });
  expect(files).toHaveLength(2);
  const { config } = ts.readConfigFile(path.join(ROOT, "tsconfig.json"), (file) =>
    readFileSync(file, "utf8"),
  ) as { config: { compilerOptions: object } };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT);
  const problems = ts
    .getPreEmitDiagnostics(ts.createProgram(files, options))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
  expect(problems).toEqual([]);
});
