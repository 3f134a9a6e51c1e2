import { existsSync } from "node:fs";
import path from "node:path";
import type { IDeployment } from "kubernetes-models/apps/v1/Deployment";
import { findKustomize } from "../../tools/kustomize.mjs";
import type { Resource } from "../support/kubernetes.js";
import { MANIFESTS, OVERLAYS, render } from "../support/kustomization.js";
import { bytes, containerOf, deployed, isWorkload, policyOf } from "../support/workloads.js";

// Patches, images, namespace and names: what only kustomize can tell.

const { command: kustomize } = findKustomize();

(kustomize ? describe : describe.skip)(
  "what kustomize makes of it (skipped where neither kustomize nor a kubectl that has it is installed, of 5.1 or newer)",
  () => {
    const made = new Map<string, Resource[]>();
    const rendered = (folder: string): Resource[] => {
      const found = made.get(folder) ?? render(kustomize!, folder);
      made.set(folder, found);
      return found;
    };

    it("all is in one namespace, whose pods are restricted", () => {
      for (const folder of OVERLAYS) {
        const resources = rendered(folder);
        const namespaces = resources.filter((one) => one.kind === "Namespace");
        expect(namespaces.map(({ metadata }) => metadata)).toEqual([
          expect.objectContaining({
            name: "jobs",
            labels: expect.objectContaining({
              "pod-security.kubernetes.io/enforce": "restricted",
            }),
          }),
        ]);
        const others = resources.filter((one) => one.kind !== "Namespace");
        expect([...new Set(others.map(({ metadata }) => metadata!.namespace))]).toEqual(["jobs"]);
      }
    });

    it("images are of one release, for the apps and their migration", () => {
      const images = OVERLAYS.flatMap(rendered)
        .filter(isWorkload)
        .map((one) => containerOf(one).image!);
      for (const image of images) expect(image).toMatch(/^registry\.example\/nestjs-pg-jobs-\w+:/);
      expect(new Set(images.map((image) => image.split(":")[1])).size).toBe(1);
    });

    it("pods are replaced when their settings change: names carry what they say", () => {
      const settings = rendered("overlays/example").filter(
        ({ kind }) => kind === "ConfigMap" || kind === "Secret",
      );
      expect(settings).toHaveLength(7);
      for (const { metadata } of settings)
        expect(metadata!.name).toMatch(/^jobs-\w+-[a-z0-9]{10}$/);
    });

    it("the example lets in who scrapes; the small one is one of each, with less memory", () => {
      expect(policyOf(rendered("overlays/example"), "jobs-worker")).toMatchObject({
        policyTypes: ["Ingress"],
        ingress: [
          {
            from: [{ namespaceSelector: { matchLabels: expect.anything() } }],
            ports: [{ port: "health" }],
          },
        ],
      });
      const of = (folder: string) => deployed(rendered(folder), "worker");
      const memory = (one: IDeployment) => bytes(containerOf(one).resources!.limits!.memory!);
      expect(of("overlays/small").spec!.replicas).toBe(1);
      expect(of("overlays/example").spec!.replicas).toBe(2);
      expect(memory(of("overlays/small"))).toBeLessThan(memory(of("overlays/example")));
      // the rest of the container is as it was
      expect(containerOf(of("overlays/small")).resources!.requests).toHaveProperty("cpu");
    });

    it("says what is wrong with a folder that is none", () => {
      expect(existsSync(path.join(MANIFESTS, "nowhere"))).toBe(false);
      expect(() => rendered("nowhere")).toThrow(/failed/);
    });
  },
);
