import { readFileSync } from "node:fs";
import path from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { runKustomize } from "../../tools/kustomize.mjs";
import type { Resource } from "./kubernetes.js";

/** Where the manifests are. */
export const MANIFESTS = path.resolve(import.meta.dirname, "../../deploy/kubernetes");

/** What is applied: an overlay, or its migration. */
export const OVERLAYS = [
  "overlays/example",
  "overlays/example/migrate",
  "overlays/small",
  "overlays/keda",
];

interface Generator {
  name: string;
  behavior?: "merge";
  literals: string[];
  options?: { disableNameSuffixHash: boolean };
}

/** A `kustomization.yaml`, as far as ours say anything. */
export interface Kustomization {
  apiVersion: string;
  kind: "Kustomization" | "Component";
  namespace?: string;
  labels?: { pairs: Record<string, string>; includeTemplates?: boolean }[];
  resources?: string[];
  components?: string[];
  configMapGenerator?: Generator[];
  secretGenerator?: Generator[];
  images?: { name: string; newName: string; newTag: string }[];
  replicas?: { name: string; count: number }[];
  patches?: { path: string }[];
}

export const readYaml = (file: string): unknown =>
  parse(readFileSync(path.join(MANIFESTS, file), "utf8"));

export const readKustomization = (folder: string): Kustomization =>
  readYaml(path.join(folder, "kustomization.yaml")) as Kustomization;

/** Whether a resource of a kustomization is a folder with another one. */
export const isFolder = (resource: string): boolean => !resource.endsWith(".yaml");

/**
 * The files that a kustomization and those below it list, and what their generators say. What only kustomize can tell
 * (patches, labels, images, the hashes in names) is not in it.
 */
export function written(folder: string): Resource[] {
  const made = new Map<string, Resource>();
  const add = (at: string): void => {
    const { resources = [], components = [], ...own } = readKustomization(at);
    for (const one of [...resources.filter(isFolder), ...components]) add(path.join(at, one));
    for (const file of resources.filter((one) => !isFolder(one))) {
      const resource = readYaml(path.join(at, file)) as Resource;
      made.set(`${resource.kind} ${resource.metadata!.name}`, resource);
    }
    for (const generator of own.configMapGenerator ?? []) generate("ConfigMap", generator);
    for (const generator of own.secretGenerator ?? []) generate("Secret", generator);
  };
  const generate = (kind: "ConfigMap" | "Secret", { name, behavior, literals }: Generator) => {
    const before = made.get(`${kind} ${name}`);
    if (behavior === "merge" && !before) throw new Error(`${kind} ${name}: nothing to merge with`);
    const values = { ...(before && valuesOf(before)), ...pairs(literals) };
    const said = kind === "Secret" ? { stringData: values } : { data: values };
    made.set(`${kind} ${name}`, {
      apiVersion: "v1",
      kind,
      metadata: { name },
      ...said,
    } as Resource);
  };
  add(folder);
  return [...made.values()];
}

function pairs(literals: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    literals.map((literal) => {
      const at = literal.indexOf("=");
      if (at < 1) throw new Error(`expected name=value, found ${literal}`);
      return [literal.slice(0, at), literal.slice(at + 1)];
    }),
  );
}

/** What a ConfigMap or a Secret says, in clear text. */
export function valuesOf(resource: Resource): Record<string, string> {
  if (resource.kind === "ConfigMap") return resource.data ?? {};
  if (resource.kind !== "Secret") throw new Error(`a ${resource.kind} has no values`);
  const clear = Object.entries(resource.data ?? {}).map(([name, value]) => [
    name,
    Buffer.from(value, "base64").toString("utf8"),
  ]);
  return { ...(Object.fromEntries(clear) as Record<string, string>), ...resource.stringData };
}

/** What kustomize makes of a folder. */
export function render(kustomize: readonly string[], folder: string): Resource[] {
  const [tool, ...args] = kustomize;
  const text = runKustomize(tool!, [...args, path.join(MANIFESTS, folder)]);
  return parseAllDocuments(text).map((document) => {
    if (document.errors.length > 0) throw document.errors[0]!;
    const resource = document.toJS() as Resource;
    // It breaks what is long into lines, which the API server lets pass and the schema's format does not.
    if (resource.kind === "Secret")
      for (const [name, value] of Object.entries(resource.data ?? {}))
        resource.data![name] = value.replaceAll("\n", "");
    return resource;
  });
}
