import { readFileSync } from "node:fs";
import path from "node:path";
import { parseWorkerOptions } from "../../libs/jobs/src/jobs.options.js";
import { findKustomize } from "../../tools/kustomize.mjs";
import { APPS, type AppName, variablesOf } from "../support/environment.js";
import {
  type Resource,
  type Workload,
  schemaProblems,
  titleOf,
  typeProblems,
} from "../support/kubernetes.js";
import { render, written } from "../support/kustomization.js";
import {
  type Labels,
  bytes,
  containerOf,
  deployed,
  environmentOf,
  matches,
  nameOf,
  podOf,
  policyOf,
  probesOf,
  workloadsOf,
} from "../support/workloads.js";

// The resources of deploy/kubernetes, held to Kubernetes and to the code: as the files say and, where kustomize is
// installed, as it makes them.

const ROOT = path.resolve(import.meta.dirname, "../..");
const { command: kustomize } = findKustomize();

const ways: [string, (folder: string) => Resource[]][] = [["as they are written", written]];
if (kustomize)
  ways.push([`as ${kustomize.join(" ")} renders them`, (folder) => render(kustomize, folder)]);

describe.each(ways)("the resources, %s", (_, read) => {
  const apps = read("overlays/example");
  const small = read("overlays/small");
  const scaled = read("overlays/keda");
  const migration = read("overlays/example/migrate");
  const sets = Object.entries({ example: apps, small, keda: scaled, migrate: migration });
  const everything = [...apps, ...small, ...scaled, ...migration];

  it("fit the schemas of Kubernetes, and have no field that it does not know", () => {
    expect(everything.flatMap(schemaProblems)).toEqual([]);
    expect(typeProblems(everything)).toEqual([]);
  });

  it("are the three apps, and the migration apart", () => {
    expect(workloadsOf(apps).map(nameOf).toSorted()).toEqual(["admin", "api", "worker"]);
    expect(workloadsOf(migration).map(nameOf)).toEqual(["migrate"]);
  });

  it.each(sets)("%s: selectors find the pods that they mean", (_set, resources) => {
    const workloads = workloadsOf(resources);
    const labelsOf = (workload: Workload) => workload.spec!.template.metadata!.labels;
    const selectors = resources.flatMap((resource): [string, Labels][] => {
      const of = (selector?: Labels): [string, Labels][] => [[titleOf(resource), selector!]];
      if (resource.kind === "Deployment") return of(resource.spec!.selector.matchLabels);
      if (resource.kind === "Service") return of(resource.spec!.selector);
      if (resource.kind === "PodDisruptionBudget") return of(resource.spec!.selector!.matchLabels);
      if (resource.kind === "NetworkPolicy") return of(resource.spec!.podSelector.matchLabels);
      return [];
    });
    expect(selectors.length).toBeGreaterThan(0);
    for (const [title, selector] of selectors) {
      const found = workloads.filter((one) => matches(selector, labelsOf(one)));
      expect([title, found.map((one) => one.metadata!.name)]).toEqual([
        title,
        [title.split(" ")[1]],
      ]);
    }
    for (const workload of workloads)
      for (const { labelSelector } of podOf(workload).topologySpreadConstraints ?? [])
        expect(matches(labelSelector!.matchLabels!, labelsOf(workload))).toBe(true);
  });

  it.each(sets)("%s: each pod is under a network policy", (_set, resources) => {
    for (const { metadata } of workloadsOf(resources))
      expect(resources.map(titleOf)).toContain(`NetworkPolicy ${metadata!.name}`);
  });

  it.each(APPS)("%s: environment, ports and probes are those of its code", (app) => {
    for (const resources of [apps, small]) {
      const container = containerOf(deployed(resources, app));
      const environment = environmentOf(resources, container);
      const variables = variablesOf(app);
      const names = Object.keys(environment).filter((name) => name !== "NODE_OPTIONS");
      expect(variables.map(({ name }) => name)).toEqual(expect.arrayContaining(names));
      const needed = variables.filter(({ required }) => required).map(({ name }) => name);
      expect(needed).toContain("DATABASE_URL");
      expect(names).toEqual(expect.arrayContaining(needed));
      const [port] = variables.filter((one) => one.port !== undefined);
      expect(environment[port!.name]).toBe(String(port!.port));
      expect(container.ports).toEqual([
        expect.objectContaining({ name: expect.any(String), containerPort: port!.port }),
      ]);
      for (const probe of Object.values(probesOf(container)))
        expect(probe.httpGet!.port).toBe(container.ports![0]!.name);
      expect(environment.HOST).toBe("0.0.0.0");
    }
  });

  it("the migration gets what the command line reads, and has credentials of its own", () => {
    const cli = readFileSync(path.join(ROOT, "libs/jobs/src/cli/main.ts"), "utf8");
    const environment = environmentOf(migration, containerOf(workloadsOf(migration)[0]!));
    expect(Object.keys(environment).sort()).toEqual(
      [...new Set([...cli.matchAll(/\benv\.([A-Z_]+)/g)].map(([, name]) => name!))].sort(),
    );
    const ofApp = (app: AppName) => environmentOf(apps, containerOf(deployed(apps, app)));
    for (const app of APPS) {
      expect(ofApp(app).DATABASE_URL).not.toBe(environment.DATABASE_URL);
      // or the apps would look for tables where nobody has made them
      expect(ofApp(app).JOBS_SCHEMA).toBe(environment.JOBS_SCHEMA);
    }
  });

  it("the scaler scales the worker, of the queues that it serves, with a secret that is there", () => {
    const object = scaled.find((one) => one.kind === "ScaledObject")!;
    const authentication = scaled.find((one) => one.kind === "TriggerAuthentication")!;
    // Some jobs can be claimed, and so be counted, only when a worker lives.
    expect(object.spec!.minReplicaCount).toBeGreaterThanOrEqual(1);
    const [trigger, ...others] = object.spec!.triggers;
    expect(others).toEqual([]);
    expect(deployed(scaled, "worker").metadata!.name).toBe(object.spec!.scaleTargetRef.name);
    expect(trigger!.authenticationRef!.name).toBe(authentication.metadata!.name);
    const [reference] = authentication.spec!.secretTargetRef!;
    // No hash behind its name: kustomize does not know that this resource names a secret.
    const secret = scaled.find((one) => titleOf(one) === `Secret ${reference!.name}`) as {
      stringData?: object;
      data?: object;
    };
    expect(Object.keys({ ...secret.stringData, ...secret.data })).toContain(reference!.key);
    expect(trigger!.metadata.query).toContain("jobs.desired_workers(");
  });

  it("services and policies name ports that are there", () => {
    const named = (labels: Labels) =>
      workloadsOf(apps)
        .filter((one) => matches(labels, one.spec!.template.metadata!.labels))
        .flatMap((one) => containerOf(one).ports!.map(({ name }) => name));
    const asked = apps.flatMap((one): [string, unknown, unknown[]][] => {
      if (one.kind === "Service")
        return one.spec!.ports!.map(({ targetPort }) => [
          titleOf(one),
          targetPort,
          named(one.spec!.selector!),
        ]);
      if (one.kind === "NetworkPolicy")
        return (one.spec!.ingress ?? []).flatMap(({ ports }) =>
          ports!.map(({ port }): [string, unknown, unknown[]] => [
            titleOf(one),
            port,
            named(one.spec!.podSelector.matchLabels!),
          ]),
        );
      return [];
    });
    expect(asked.length).toBeGreaterThanOrEqual(4);
    for (const [title, port, ports] of asked) expect([title, ports]).toEqual([title, [port]]);
  });

  it("where the database is may be gone to", () => {
    const bounded = [apps, migration].flatMap((resources) =>
      workloadsOf(resources).flatMap((workload) => {
        const { policyTypes, egress = [] } = policyOf(resources, workload.metadata!.name!);
        if (!policyTypes!.includes("Egress")) return [];
        const { DATABASE_URL } = environmentOf(resources, containerOf(workload));
        const open = egress.flatMap(({ ports }) => ports!.map(({ port }) => port));
        return [{ open, needed: [53, Number(new URL(DATABASE_URL!).port)] }];
      }),
    );
    expect(bounded).toHaveLength(3);
    for (const { open, needed } of bounded) expect(open).toEqual(expect.arrayContaining(needed));
  });

  it("nobody comes to a worker uninvited, and to admin only who says that he is its client", () => {
    expect(policyOf(read("base"), "jobs-worker")).toMatchObject({
      policyTypes: ["Ingress"],
      ingress: [],
    });
    const client = { podSelector: { matchLabels: { "nestjs-pg-jobs/client-of": "jobs-admin" } } };
    const scraper = {
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } },
    };
    expect(policyOf(read("base"), "jobs-admin").ingress!.map(({ from }) => from)).toEqual([
      [client],
    ]);
    // Written as it is, a patch is no policy yet.
    const invited = read === written ? [client] : [client, scraper];
    expect(policyOf(apps, "jobs-admin").ingress!.map(({ from }) => from)).toEqual([invited]);
    const services = apps.filter((one) => one.kind === "Service");
    for (const { spec } of services) expect(spec!.type).toBe("ClusterIP");
    expect(services.map(({ metadata }) => metadata!.name)).not.toContain("jobs-worker");
  });

  it.each(sets)("%s: no pod has more rights than it needs", (_set, resources) => {
    for (const workload of workloadsOf(resources)) {
      expect(podOf(workload)).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: 1000,
          runAsGroup: 1000,
          seccompProfile: { type: "RuntimeDefault" },
        },
      });
      expect(containerOf(workload).securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      expect(podOf(workload)).not.toHaveProperty("volumes");
      expect(podOf(workload)).not.toHaveProperty("hostNetwork");
    }
  });

  it("a worker has the time that it takes to end, and no hook that takes of it", () => {
    const { graceMs } = parseWorkerOptions({ imports: [] });
    // the sample does not say another one
    const app = readFileSync(path.join(ROOT, "apps/worker/src/worker-app.module.ts"), "utf8");
    expect(app).not.toMatch(/\bgrace\b/);
    const BEYOND_GRACE_S = 5;
    const MARGIN_S = 5;
    const worker = deployed(apps, "worker");
    expect(podOf(worker).terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      graceMs / 1_000 + BEYOND_GRACE_S + MARGIN_S,
    );
    expect(containerOf(worker)).not.toHaveProperty("lifecycle");
  });

  it.each(["api", "admin"] as const)("%s lets its service forget it before it ends", (app) => {
    const deployment = deployed(apps, app);
    const [command, seconds] = containerOf(deployment).lifecycle!.preStop!.exec!.command!;
    expect(command).toBe("sleep");
    expect(Number(seconds)).toBeLessThan(podOf(deployment).terminationGracePeriodSeconds! / 2);
  });

  it("a start has longer than an app waits for its database", () => {
    const samples = readFileSync(path.join(ROOT, "libs/samples/src/samples.module.ts"), "utf8");
    const patience = Number(/PATIENCE_MS = ([\d_]+);/.exec(samples)![1]!.replaceAll("_", ""));
    for (const app of APPS) {
      const { startup } = probesOf(containerOf(deployed(apps, app)));
      const seconds = startup.periodSeconds! * startup.failureThreshold!;
      expect(seconds * 1_000).toBeGreaterThan(patience + 10_000);
    }
  });

  it("liveness asks what does not ask the database, readiness what does", () => {
    for (const app of APPS) {
      const { startup, liveness, readiness } = probesOf(containerOf(deployed(apps, app)));
      const paths = [startup, liveness, readiness].map(({ httpGet }) => httpGet!.path);
      expect(paths).toEqual(
        app === "worker"
          ? ["/livez", "/livez", "/readyz"]
          : ["/health/live", "/health/live", "/health"],
      );
    }
  });

  it("a rollout takes nobody away before another one is ready, and lets nodes be drained", () => {
    for (const app of APPS)
      expect(deployed(apps, app).spec!.strategy).toEqual({
        type: "RollingUpdate",
        rollingUpdate: { maxSurge: 1, maxUnavailable: 0 },
      });
    const budgets = apps.filter((one) => one.kind === "PodDisruptionBudget");
    expect(budgets.map(({ metadata }) => metadata!.name!).toSorted()).toEqual([
      "jobs-api",
      "jobs-worker",
    ]);
    for (const { spec } of budgets)
      expect(spec).toMatchObject({ maxUnavailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow" });
  });

  it("a worker may use what docs/performance.md says that it uses", () => {
    const page = readFileSync(path.join(ROOT, "docs/performance.md"), "utf8");
    /** The highest peak in the row of these options of Node.js. */
    const peak = (options: string) => {
      const row = page.split("\n").find((line) => line.startsWith(`| ${options} `))!;
      const megabytes = [...row.matchAll(/(\d+)(?:, (\d+))? MB/g)].flatMap(([, a, b]) => [a, b]);
      return Math.max(...megabytes.filter(Boolean).map(Number)) * 1024 * 1024;
    };
    expect(peak("as it is")).toBeGreaterThan(peak("`--max-semi-space-size=16`"));
    // What is less for the small one is a patch, which only kustomize applies.
    for (const resources of read === written ? [apps] : [apps, small]) {
      const container = containerOf(deployed(resources, "worker"));
      const { NODE_OPTIONS } = environmentOf(resources, container);
      const { requests, limits } = container.resources!;
      const needed = peak(NODE_OPTIONS === undefined ? "as it is" : `\`${NODE_OPTIONS}\``);
      expect(bytes(requests!.memory!)).toBeGreaterThan(needed);
      expect(bytes(limits!.memory!)).toBeGreaterThan(needed * 1.25);
      expect(limits).not.toHaveProperty("cpu");
    }
    const { NODE_OPTIONS } = environmentOf(small, containerOf(deployed(small, "worker")));
    expect(NODE_OPTIONS).toBe("--max-semi-space-size=16");
  });
});
