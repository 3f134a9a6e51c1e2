import { readdirSync } from "node:fs";
import path from "node:path";
import { type Resource, titleOf } from "../support/kubernetes.js";
import {
  type Kustomization,
  MANIFESTS,
  OVERLAYS,
  isFolder,
  readKustomization,
  readYaml,
  written,
} from "../support/kustomization.js";
import { containerOf, workloadsOf } from "../support/workloads.js";

// The files that say what belongs together; kustomize itself is not needed for it.

describe("the kustomizations", () => {
  const files = readdirSync(MANIFESTS, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".yaml"))
    .sort();
  const folders = files
    .filter((file) => path.basename(file) === "kustomization.yaml")
    .map((file) => path.dirname(file));
  const all = folders.map((folder): [string, Kustomization] => [folder, readKustomization(folder)]);

  it("are those that are rendered, and what they build on", () => {
    const reached = new Set<string>();
    const reach = (folder: string): void => {
      reached.add(folder);
      const { resources = [], components = [] } = readKustomization(folder);
      for (const one of [...resources.filter(isFolder), ...components])
        reach(path.join(folder, one));
    };
    OVERLAYS.forEach(reach);
    expect([...reached].toSorted()).toEqual(folders.toSorted());
  });

  it("list each file below them once, and none that is not there", () => {
    const listed = all.flatMap(([folder, { resources = [], patches = [] }]) =>
      [...resources.filter((one) => !isFolder(one)), ...patches.map((one) => one.path)].map(
        (file) => path.join(folder, file),
      ),
    );
    const others = files.filter((file) => path.basename(file) !== "kustomization.yaml");
    expect(listed.toSorted()).toEqual(others);
  });

  it("say which kind they are, by the folder's use", () => {
    const components = new Set(
      all.flatMap(([folder, { components = [] }]) =>
        components.map((one) => path.join(folder, one)),
      ),
    );
    for (const [folder, { apiVersion, kind }] of all) {
      expect([folder, apiVersion, kind]).toEqual([
        folder,
        ...(components.has(folder)
          ? ["kustomize.config.k8s.io/v1alpha1", "Component"]
          : ["kustomize.config.k8s.io/v1beta1", "Kustomization"]),
      ]);
    }
  });

  it("patch, count and name what is there, and images all that are used", () => {
    const known = OVERLAYS.flatMap(written);
    const names = known.map(titleOf);
    const used = [...new Set(workloadsOf(known).map((one) => containerOf(one).image!))];
    const patched = all.flatMap(([folder, { patches = [] }]) =>
      patches.map((one) => titleOf(readYaml(path.join(folder, one.path)) as Resource)),
    );
    const counted = all.flatMap(([, { replicas = [] }]) => replicas.map(({ name }) => name));
    expect(names).toEqual(expect.arrayContaining(patched));
    expect(names).toEqual(expect.arrayContaining(counted.map((name) => `Deployment ${name}`)));
    // An image that is not named would be of no release.
    const [images, ...others] = all.flatMap(([, one]) => (one.images ? [one.images] : []));
    expect(others).toEqual([]);
    expect(images!.map(({ name }) => name).toSorted()).toEqual(used.toSorted());
  });

  it("have no secret that could be one", () => {
    const secrets = all.flatMap(([, { secretGenerator = [] }]) => secretGenerator);
    expect(secrets.length).toBeGreaterThan(3);
    for (const { literals } of secrets)
      for (const literal of literals) expect(literal).toContain("example-only");
  });
});
