import { readFileSync } from "node:fs";
import path from "node:path";
import { type Prometheus, prometheus, startPrometheus } from "../../tools/prometheus.mjs";
import { Bench } from "../support/harness.js";
import { payloads, reached } from "../support/handlers.js";
import { WorkerProcess } from "../support/run-worker-process.js";
import { until } from "../support/until.js";

// A real Prometheus scrapes a real worker process, with our rules, and answers what our dashboard asks.

const DEPLOY = path.resolve(import.meta.dirname, "../../deploy");
const dashboard = JSON.parse(readFileSync(path.join(DEPLOY, "grafana/dashboard.json"), "utf8")) as {
  panels: { title: string; targets?: { expr: string }[] }[];
};
const JOBS = 7;

interface Found {
  result: { metric: Record<string, string>; value: [number, string] }[];
}

(prometheus ? describe : describe.skip)(
  "Prometheus (skipped where it is not installed: apt-get install prometheus)",
  () => {
    let bench: Bench;
    let worker: WorkerProcess;
    let server: Prometheus;
    beforeAll(async () => {
      bench = await Bench.open();
      worker = new WorkerProcess({ url: bench.url, schema: bench.schema, metrics: {} });
      await worker.answers("readyz", 200);
      server = await startPrometheus({
        global: { scrape_interval: "1s", evaluation_interval: "1s" },
        rule_files: [path.join(DEPLOY, "prometheus/alerts.yml")],
        scrape_configs: [
          {
            job_name: "jobs-worker",
            static_configs: [{ targets: [`127.0.0.1:${await worker.port()}`] }],
          },
        ],
      });
    }, 120_000);
    afterAll(async () => {
      await server?.stop();
      worker?.kill("SIGKILL");
      await worker?.exit();
      await bench.close();
    });

    const ask = async (query: string) => (await server.api<Found>("query", { query })).result;
    const value = async (query: string) => Number((await ask(query))[0]?.value[1]);

    it("scrapes it, and answers with the right counts", async () => {
      await until(async () => (await value('up{job="jobs-worker"}')) === 1, {
        what: "it is scraped",
      });
      const sent = await (await bench.producer()).enqueueMany("quick", payloads(JOBS));
      for (const { id } of sent) await reached(bench, id, "succeeded");
      const query = 'jobs_events_total{event="succeeded",queue="default",kind="quick"}';
      await until(async () => (await value(query)) === JOBS, { what: "all of them are counted" });
      expect(await value(`${query.replace("succeeded", "started")}`)).toBe(JOBS);
      expect(await value('jobs_run_duration_seconds_count{kind="quick"}')).toBe(JOBS);
      const [{ metric }] = (await ask(query)) as [Found["result"][number]];
      expect(metric).toMatchObject({ __name__: "jobs_events_total", state: "succeeded" });
      // The tables are read every ten seconds.
      await until(
        async () => (await value('jobs_queue_jobs{queue="default",state="succeeded"}')) === JOBS,
        { what: "the tables have been read again", timeout: 40_000 },
      );
      expect(await value("jobs_workers")).toBe(1);
    }, 90_000);

    it("evaluates the alert rules, none of which fires", async () => {
      interface Rules {
        groups: { rules: { name: string; health: string; state: string; lastError?: string }[] }[];
      }
      const rules = await until(
        async () => {
          const { groups } = await server.api<Rules>("rules", { type: "alert" });
          const all = groups.flatMap((group) => group.rules);
          return all.every(({ health }) => health !== "unknown") && all;
        },
        { what: "all rules have been evaluated" },
      );
      expect(rules.length).toBeGreaterThanOrEqual(12);
      expect(rules.filter(({ health }) => health !== "ok")).toEqual([]);
      expect(rules.filter(({ state }) => state === "firing")).toEqual([]);
    });

    it("answers each question of the dashboard, nearly all of them with something", async () => {
      const asked = dashboard.panels.flatMap(({ title, targets = [] }) =>
        targets.map(({ expr }) => ({ title, expr })),
      );
      // Some rates need a second job, and jobs that have ended between two scrapes.
      const jobs = await bench.producer();
      const empty: string[] = [];
      await until(
        async () => {
          await jobs.enqueue("quick");
          empty.length = 0;
          for (const { title, expr } of asked) {
            const query = expr
              .replaceAll("$__rate_interval", "1m")
              .replaceAll('queue=~"$queue"', 'queue=~".*"')
              .replaceAll('schema=~"$schema"', `schema="${bench.schema}"`);
            if ((await ask(query)).length === 0) empty.push(title);
          }
          return empty.length === 0;
        },
        { what: "each of them is answered", every: 500 },
      ).catch(() => undefined);
      expect(empty).toEqual([]);
    }, 60_000);
  },
);
