import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parse } from "yaml";
import { promtool, runPromtool } from "../../tools/prometheus.mjs";
import { Bench } from "../support/harness.js";
import { written } from "../support/kustomization.js";
import type { Scraped } from "../support/scraped.js";
import { servedMetrics } from "../support/served-metrics.js";
import { containerOf, deployed } from "../support/workloads.js";

// What deploy/ has for Prometheus and Grafana fits what is served, and does what it says.

const DEPLOY = path.resolve(import.meta.dirname, "../../deploy");
const read = (file: string) => readFileSync(path.join(DEPLOY, file), "utf8");
const alerts = read("prometheus/alerts.yml");
const tests = read("prometheus/alerts.test.yml");
const dashboard = read("grafana/dashboard.json");
/** One of them has two rules, of two severities. */
const names = [...alerts.matchAll(/^ +- alert: (\w+)$/gm)].map(([, name]) => name!);

let bench: Bench;
let served: Scraped;
beforeAll(async () => {
  bench = await Bench.open();
  served = await servedMetrics(bench);
});
afterAll(async () => await bench.close());

/** Of a histogram there are three. */
const known = (name: string) =>
  served.types.has(name) ||
  served.types.get(name.replace(/_(bucket|sum|count)$/, "")) === "histogram";

it.each([
  ["alerts.yml", alerts],
  ["alerts.test.yml", tests],
  ["dashboard.json", dashboard],
])("every metric in %s is served", (_, text) => {
  const used = new Set([...text.matchAll(/\bjobs_[a-z0-9_]+\b/g)].map(([name]) => name));
  expect(used.size).toBeGreaterThan(10);
  expect([...used].filter((name) => !known(name))).toEqual([]);
});

it("every label in the expressions is one of its metric", () => {
  const expressions = [
    ...[...alerts.matchAll(/\bjobs_[a-z0-9_]+\{[^}]*\}/g)].map(([one]) => one),
    ...[...tests.matchAll(/\bjobs_[a-z0-9_]+\{[^}]*\}/g)].map(([one]) => one),
    ...[...dashboard.matchAll(/\bjobs_[a-z0-9_]+\{[^}]*\}/g)].map(([one]) =>
      one.replaceAll('\\"', '"'),
    ),
  ];
  expect(expressions.length).toBeGreaterThan(20);
  // Those that Prometheus adds.
  const always = ["job", "instance"];
  const wrong = expressions.filter((one) => {
    const [, name, rest] = /^(\w+)\{(.*)\}$/.exec(one)!;
    const labels = [...rest!.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g)].map(([, label]) => label!);
    const has = new Set([...always, ...Object.keys(served.of(name!)[0]?.labels ?? {})]);
    return !labels.every((label) => has.has(label));
  });
  expect(wrong).toEqual([]);
});

it("what is told by queue is told by schema too: of two with one name none hides the other", () => {
  const asked = JSON.parse(dashboard) as { panels: { targets?: { expr: string }[] }[] };
  const expressions = [
    ...alerts.split("\n"),
    ...asked.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ];
  const groups = expressions.flatMap((one) =>
    [...one.matchAll(/\bby \(([^)]*\bqueue\b[^)]*)\)/g)].map(([, labels]) => labels!),
  );
  expect(groups.length).toBeGreaterThan(30);
  expect(groups.filter((labels) => !labels.includes("schema"))).toEqual([]);
  const chosen = dashboard.match(/queue=~/g)!.length;
  expect(dashboard.match(/schema=~\\"\$schema\\",queue=~/g)).toHaveLength(chosen);
});

interface Scraping {
  job_name: string;
  kubernetes_sd_configs: { namespaces: { names: string[] }; selectors: { label: string }[] }[];
  relabel_configs: { regex?: string; action?: string }[];
}
const inKubernetes = parse(read("prometheus/kubernetes.yml")) as { scrape_configs: Scraping[] };

it("in Kubernetes finds the pods that there are, by names that the rules know", () => {
  const apps = written("overlays/example");
  const [, known] = /up\{job=~"([^"]+)"\}/.exec(alerts)!;
  const jobs = inKubernetes.scrape_configs;
  expect(jobs.map(({ job_name: name }) => name)).toEqual(["jobs-worker", "jobs-admin"]);
  for (const { job_name: name, kubernetes_sd_configs: found, relabel_configs: changes } of jobs) {
    for (const job of [name, `jobs/${name}`]) expect(job).toMatch(new RegExp(`^(?:${known})$`));
    const [{ namespaces, selectors }] = found as [Scraping["kubernetes_sd_configs"][number]];
    expect(namespaces.names).toEqual(["jobs"]);
    const workload = deployed(apps, name === "jobs-worker" ? "worker" : "admin");
    const { labels } = workload.spec!.template.metadata!;
    const [label, value] = selectors[0]!.label.split("=");
    expect(labels![label!]).toBe(value);
    const kept = changes.find(({ action }) => action === "keep")!.regex!;
    expect(containerOf(workload).ports!.map((port) => port.name)).toEqual([
      expect.stringMatching(new RegExp(`^(?:${kept})$`)),
    ]);
  }
});

it("every alert has a severity, a summary and a sentence for whoever is called, and a test", () => {
  expect(names.length).toBeGreaterThanOrEqual(12);
  const rules = alerts.split(/^ +- alert: /m).slice(1);
  for (const rule of rules) {
    expect(rule).toMatch(/^ +severity: (warning|critical)$/m);
    expect(rule).toMatch(/^ +summary: ".{20,}"$/m);
    expect(rule).toMatch(/^ +runbook: ".{40,}"$/m);
  }
  const fired = new Set(
    [...tests.matchAll(/alertname="(\w+)",alertstate="firing"/g)].map(([, name]) => name),
  );
  expect(names.filter((name) => !fired.has(name))).toEqual([]);
});

it("the dashboard is JSON, its panels ask something, and no two have one id", () => {
  const { panels } = JSON.parse(dashboard) as {
    panels: { id: number; type: string; title: string; targets?: { expr: string }[] }[];
  };
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const mute = panels.filter(({ type, targets }) => type !== "row" && !targets?.length);
  expect(mute.map(({ title }) => title)).toEqual([]);
});

(promtool ? describe : describe.skip)(
  "promtool (skipped where it is not installed: apt-get install prometheus)",
  () => {
    const file = (name: string) => path.join(DEPLOY, "prometheus", name);

    it("understands the rules", () => {
      const { status, output } = runPromtool(["check", "rules", file("alerts.yml")]);
      expect({ status, output }).toEqual({
        status: 0,
        output: expect.stringContaining(`SUCCESS: ${names.length} rules found`),
      });
    });

    it("sees each of them fire when it should, and keep silent when it should not", () => {
      const { status, output } = runPromtool(["test", "rules", file("alerts.test.yml")]);
      expect({ status, output }).toEqual({ status: 0, output: expect.stringContaining("SUCCESS") });
    });

    it("understands the configuration", () => {
      const args = ["check", "config", "--syntax-only", file("prometheus.yml")];
      const { status, output } = runPromtool(args);
      expect({ status, output }).toEqual({ status: 0, output: expect.stringContaining("SUCCESS") });
    });

    it("understands that for Kubernetes, but for how pods are found, which Debian leaves out", () => {
      const folder = mkdtempSync(path.join(tmpdir(), "jobs-prometheus-"));
      try {
        const config = path.join(folder, "prometheus.yml");
        const scraped = inKubernetes.scrape_configs.map((one) => ({
          ...one,
          kubernetes_sd_configs: undefined,
        }));
        writeFileSync(config, JSON.stringify({ ...inKubernetes, scrape_configs: scraped }));
        const { status, output } = runPromtool(["check", "config", "--syntax-only", config]);
        expect({ status, output }).toEqual({
          status: 0,
          output: expect.stringContaining("SUCCESS"),
        });
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  },
);
